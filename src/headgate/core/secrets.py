"""Removing credentials from what is written into the log: the log is for everybody who may read the lake."""

from __future__ import annotations

import re
from collections.abc import Iterable

REDACTED = "***"

_SECRET_NAME = (
    r"[\w.\-]*(?:secret|passw(?:or)?d|passphrase|pwd|token|credential|signature|api[_\-.]?key|"
    r"access[_\-.]?key(?:[_\-.]?id)?|account[_\-.]?key|private[_\-.]?key|session[_\-.]?key|"
    r"sas|authorization)[\w.\-]*"
)
_OPTION_NAME = re.compile(rf"--?{_SECRET_NAME}", re.IGNORECASE)
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # scheme://user:password@host — the whole user part goes, since a bare one may be a token.
    (re.compile(r"(?P<keep>[a-z][a-z0-9+.\-]*://)[^/?#\s@]+@", re.IGNORECASE), rf"\g<keep>{REDACTED}@"),
    # "name": "value" in JSON, also with escaped quotes.
    (
        re.compile(
            rf"(?P<keep>\\?[\"']{_SECRET_NAME}\\?[\"']\s*:\s*)(?:\\?\"(?:[^\"\\]|\\[^\"])*\\?\"|'[^']*'|[^\s,}}\]]+)",
            re.IGNORECASE,
        ),
        rf'\g<keep>"{REDACTED}"',
    ),
    # name=value: options, query strings, properties. `sig` alone is Azure's signature.
    (
        re.compile(
            rf"(?P<keep>(?<![\w.\-])-{{0,2}}(?:{_SECRET_NAME}|sig)\s*=\s*)(?:\"[^\"]*\"|'[^']*'|[^\s&;,\"']+)",
            re.IGNORECASE,
        ),
        rf"\g<keep>{REDACTED}",
    ),
    (re.compile(r"(?P<keep>\b(?:bearer|basic)\s+)[\w.~+/=\-]{8,}", re.IGNORECASE), rf"\g<keep>{REDACTED}"),
    # Shapes that are secrets by themselves: AWS key ids, JSON web tokens, GitHub and Slack tokens.
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b"), REDACTED),
    (re.compile(r"\beyJ[\w\-]{8,}\.[\w\-]+\.[\w\-]*"), REDACTED),
    (re.compile(r"\b(?:gh[pousr]_|github_pat_|xox[abprs]-|glpat-)[\w\-]{10,}"), REDACTED),
)


def without_secrets(args: Iterable[str]) -> tuple[str, ...]:
    """`args` with everything that looks like a credential replaced.

    Also the argument that follows an option such as `--password`. Too much is removed rather than too
    little.
    """
    cleaned: list[str] = []
    value_is_secret = False
    for arg in args:
        if value_is_secret and not _OPTION_NAME.fullmatch(arg):
            cleaned.append(REDACTED)
            value_is_secret = False
            continue
        value_is_secret = _OPTION_NAME.fullmatch(arg) is not None
        cleaned.append(clean_text(arg))
    return tuple(cleaned)


def clean_text(text: str) -> str:
    """`text` with every part that looks like a credential replaced."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
