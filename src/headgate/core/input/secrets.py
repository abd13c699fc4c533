"""Removes credentials from what is written into the log, which everybody who can read the lake can read.

Recognised are: names that announce a secret, with the value that follows (`password=…`, `"token": …`,
`x-api-key: …`, `--secret …`, also in the middle of a string), the user part of URLs, the value of an
authorization header, private keys, and well-known formats of secrets. When in doubt, too much is removed. A
secret without a name and without a known format, as in `mysql -phunter2`, cannot be recognised.

Each string is read a bounded number of times, regardless of its length and content: no pattern can start
twice on the same run of characters, which is what makes a search quadratic.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

REDACTED = "***"
MAX_ARGUMENT = 4096
"""How much of an argument is kept. Every writer reads the record, so it must stay small."""

_SECRET_NAME = re.compile(
    r"secret|passw(?:or)?d|passphrase|token(?!i[sz])|credential|signature|authorization|"
    r"(?:api|access|account|private|session|shared|signing|encryption|master)[_\-. ]?key|"
    # Short words only when they stand alone: `sas` is part of `disaster`, `sig` of `design`.
    r"(?:\b|_)(?:pwd|sas|sig|pat|jwt)(?:\b|_)|pwd\b",
    re.IGNORECASE,
)
_OPTION = re.compile(r"--?(?P<name>[\w.\-]+)")
_ANNOUNCING = re.compile(
    # An argument that only announces the next one: `password:`, `{"token":`, `X-Api-Key=`.
    r"[\s\"'{\\]*+(?P<name>[\w.\-]++)[\"'\\]*+[:=]\s*+"
)
_SCHEMES = frozenset({"bearer", "basic", "digest", "negotiate", "aws4-hmac-sha256"})
"""The schemes of an authorization header; the secret follows."""
_KEY_BEGINS, _KEY_ENDS = "-----BEGIN", "-----END"
_USER_OPTIONS = frozenset({"-u", "--user", "--proxy-user"})
"""Options whose value is `user:password`, such as those of curl."""

_NAME = re.compile(
    # A name and the separator before its value: `name=`, `"name": `, `\"name\": `, `name%3D`.
    # Quotes may be escaped several times, as in JSON inside JSON in a file.
    r"(?<![\w.\-])(?P<name>[\w.\-]++)(?P<quote>\\{0,15}[\"'])?\s*+(?:=>|[:=]|%3[ad])\s*+",
    re.IGNORECASE,
)
_SCHEME = r"(?:(?:bearer|basic|digest|negotiate|token|apikey|sharedkey|aws4-hmac-sha256)\s++)?"
_VALUE = re.compile(
    # Quoted, possibly with escaped quotes; a list; an object; else one word. What is not closed goes to the
    # end.
    r"\\{1,15}\".*?(?:\\{1,15}\"|\Z)|\"(?:[^\"\\]|\\.)*+(?:\"|\\?\Z)|'(?:[^'\\]|\\.)*+(?:'|\\?\Z)"
    rf"|\[[^\]]*+\]?|\{{[^}}]*+\}}?|{_SCHEME}[^\s&;,\"'}}\]]++",
    re.IGNORECASE | re.DOTALL,
)
_OPTION_AND_VALUE = re.compile(
    # In one string, as in a command line: `tool --password …`. A word that starts with a dash is the next
    # option.
    r"(?<![^\s\"'])--?(?P<name>[\w.\-]++)\s++(?P<value>\"[^\"]*+\"?|'[^']*+'?|[^\s\-\"'][^\s\"']*+)"
)
_QUOTE = re.compile(r"\\{1,15}\"|[\"']")
_REST_OF_LINE = re.compile(r"[^\r\n\"']++")

_SHAPES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY[A-Z ]{0,20}-----"
            r".*?(?:-----END [A-Z ]{0,40}PRIVATE KEY[A-Z ]{0,20}-----|\Z)",
            re.DOTALL,
        ),
        REDACTED,
    ),
    # scheme://user:password@host — removes the whole user part, since a bare one may be a token. A password
    # may contain a `/` that should have been encoded; `host:80/a@b` contains none.
    (re.compile(r"(?<=://)[^\s/?#@:\"']{1,256}:(?!\d{1,5}[/?#])[^\s\"'@]{1,256}@"), f"{REDACTED}@"),
    (re.compile(r"(?<=://)[^/?#\s]*@"), f"{REDACTED}@"),
    # The same, encoded as part of another URL.
    (re.compile(r"(?<=%3A%2F%2F)[^\s/?#&]{1,512}%40", re.IGNORECASE), f"{REDACTED}%40"),
    # Services whose path is the credential.
    (re.compile(r"(?<=hooks\.slack\.com/)[^\s\"']++", re.IGNORECASE), REDACTED),
    # `basic` is also an English word: then no digit, capital letter or base64 sign follows.
    (
        re.compile(r"(?P<keep>\b(?i:bearer|basic)\s++)(?=[\w.~\-]{0,200}[A-Z0-9+/=])[\w.~+/=\-]{8,}"),
        rf"\g<keep>{REDACTED}",
    ),
    # Keys of AWS and Google, JSON web tokens, then tokens of GitHub, GitLab, Slack, Databricks, Hugging Face,
    # Stripe, OpenAI, npm, PyPI and SendGrid.
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b"), REDACTED),
    (re.compile(r"\bAIza[\w\-]{30,}"), REDACTED),
    (re.compile(r"(?<![\w\-])eyJ[\w\-]{8,}+\.[\w\-]++\.?[\w\-]*+"), REDACTED),
    (re.compile(r"\b(?:gh[pousr]_|github_pat_|xox[abprs]-|glpat-)[\w\-]{10,}"), REDACTED),
    (re.compile(r"\b(?:dapi[0-9a-f]{32}|hf_[A-Za-z0-9]{20,})"), REDACTED),
    (re.compile(r"\b(?:[sr]k_(?:live|test)_\w{10,}|sk-[\w\-]{20,})"), REDACTED),
    (re.compile(r"\b(?:npm_[A-Za-z0-9]{20,}|pypi-[\w\-]{20,}|SG\.[\w\-]{16,}\.[\w\-]{16,})"), REDACTED),
)


def is_secret_name(name: str) -> bool:
    """Whether a name announces a credential: `db.password`, `X-Api-Key`, `AWS_SECRET_KEY`."""
    return _SECRET_NAME.search(name) is not None


def without_secrets(args: Iterable[str]) -> tuple[str, ...]:
    """`args` with everything that looks like a credential replaced, each cut to a bounded length.

    Also replaces a whole argument after one that announces it: `--password`, `password:`, `Bearer`, or the
    first line of a private key. And everything after `--password=` in the same argument.
    """
    cleaned: list[str] = []
    expected = _Expected.NOTHING
    for arg in args:
        before, expected = expected, _expected_after(arg, expected)
        names_value = expected is _Expected.VALUE
        hidden = before is _Expected.KEY or (before is _Expected.VALUE and not names_value)
        if hidden or (cleaned and cleaned[-1] in _USER_OPTIONS and ":" in arg):
            cleaned.append(REDACTED)
        else:
            cleaned.append(_shortened(_clean_argument(arg)))
    return tuple(cleaned)


class _Expected(Enum):
    """What the next argument is, according to those before it."""

    NOTHING = "nothing in particular"
    VALUE = "the value of a secret"
    KEY = "a part of a private key"


def _expected_after(arg: str, before: _Expected) -> _Expected:
    begun, ended = arg.rfind(_KEY_BEGINS), arg.rfind(_KEY_ENDS)
    if before is _Expected.KEY or begun >= 0:
        # Later arguments may show whether it is a private key, and where it ends.
        return _Expected.NOTHING if ended > begun and arg.endswith("-----") else _Expected.KEY
    # Standing alone, the other schemes are English words.
    if arg.lower() == "bearer" or (before is _Expected.VALUE and arg.lower() in _SCHEMES):
        return _Expected.VALUE
    name = _OPTION.fullmatch(arg) or _ANNOUNCING.fullmatch(arg)
    return _Expected.VALUE if name is not None and is_secret_name(name["name"]) else _Expected.NOTHING


def without_secret_values(properties: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Names and values. Replaces a value whose name announces a secret; cleans other values, and names."""
    return {
        clean_text(name): REDACTED if is_secret_name(name) else clean_text(value)
        for name, value in properties
    }


def clean_text(text: str) -> str:
    """`text` with every part that looks like a credential replaced, in time proportional to its length."""
    for pattern, replacement in _SHAPES:
        text = pattern.sub(replacement, text)
    return _OPTION_AND_VALUE.sub(_without_value, _without_named_values(text))


def looks_secret(text: str) -> bool:
    """Whether a part of `text` looks like a credential."""
    return clean_text(text) != text


def _clean_argument(arg: str) -> str:
    # An argument that begins with the name is the name and its value: nothing inside ends the value.
    begin = _NAME.match(arg)
    if begin is not None and begin.end() < len(arg) and is_secret_name(begin["name"]):
        return arg[: begin.end()] + REDACTED
    return clean_text(arg)


def _shortened(arg: str) -> str:
    # After the cleaning: half of a secret would not be recognised.
    more = len(arg) - MAX_ARGUMENT
    return arg if more <= 0 else f"{arg[:MAX_ARGUMENT]}… ({more} more characters)"


def _without_named_values(text: str) -> str:
    parts: list[str] = []
    done = 0
    for found in _NAME.finditer(text):
        if found.start() < done or not is_secret_name(found["name"]):
            continue
        header = "authorization" in found["name"].lower()
        value = (header and _REST_OF_LINE.match(text, found.end())) or _VALUE.match(text, found.end())
        if value:
            parts += (text[done : found.end()], _redacted_like(value[0], found["quote"] or ""))
            done = value.end()
    return "".join((*parts, text[done:]))


def _without_value(option: re.Match[str]) -> str:
    if not is_secret_name(option["name"]):
        return option[0]
    return option[0][: option.start("value") - option.start()] + REDACTED


def _redacted_like(value: str, quote_of_name: str) -> str:
    """The mark, in the quotes of the value or of its name, so that JSON stays JSON."""
    quoted = _QUOTE.match(value)
    quote = quote_of_name if quoted is None else quoted[0]
    return f"{quote}{REDACTED}{quote}"
