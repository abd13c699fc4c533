"""The action `webhook`: POSTs the event as JSON."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from headgate.errors import HookFailedError, InvalidInputError
from headgate.model.commit_event import CommitEvent
from headgate.release import __version__
from headgate.steward.hooks.deadline import checked_seconds, within

if TYPE_CHECKING:
    from urllib.request import Request

SIGNATURE, EVENT = "X-Headgate-Signature", "X-Headgate-Event"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class Webhook:
    """POSTs the event as JSON to `url`; any answer but 2xx is a failure, and redirects are not followed.

    `X-Headgate-Event` is the id of the event. With `key_env`, the name of an environment variable that holds
    a key, `X-Headgate-Signature` is `sha256=` and the HMAC of the body in hexadecimal. The whole exchange
    takes at most `timeout_seconds`. Proxies are taken from the environment.
    """

    url: str
    key_env: str | None = None
    timeout_seconds: float = 10.0

    def __post_init__(self) -> None:
        checked_seconds(self.timeout_seconds)
        _parts(self.url)
        if self.key_env is not None and not _is_variable(self.key_env):
            # Not shown: it may be the key itself.
            raise InvalidInputError(
                "key_env is not the name of an environment variable",
                'put the key into the environment, and its name here: key_env="ORDERS_KEY"',
            )

    def run(self, event: CommitEvent) -> None:
        from headgate.steward.hooks.exchange import Exchange  # loads urllib.request, which few commits need

        exchange = Exchange(self._request(event), self.timeout_seconds)
        within(self.timeout_seconds, exchange.run, on_late=exchange.break_off)

    def describe(self) -> str:
        """Without the path: that of many services is the credential."""
        parts = _parts(self.url)
        hidden = "/…" if parts.path.strip("/") or parts.query else ""
        signed = "" if self.key_env is None else ", signed"
        return f"posts to {parts.scheme}://{_host(parts)}{hidden}{signed}"

    def _request(self, event: CommitEvent) -> Request:
        from urllib.request import Request

        parts, body = _parts(self.url), event.encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"headgate/{__version__}",
            EVENT: event.id,
            **_authorization(parts),
        }
        if self.key_env is not None:
            headers[SIGNATURE] = f"sha256={signature(_key(self.key_env), body)}"
        plain = urlunsplit((parts.scheme, _host(parts), parts.path or "/", parts.query, ""))
        return Request(plain, data=body, headers=headers, method="POST")


def signature(key: str, body: bytes) -> str:
    """The HMAC-SHA256 of a body, in hexadecimal."""
    return hmac.new(key.encode(errors="surrogateescape"), body, hashlib.sha256).hexdigest()


def _is_variable(name: object) -> bool:
    return isinstance(name, str) and _VARIABLE.fullmatch(name) is not None


def _key(variable: str) -> str:
    key = os.environ.get(variable, "")
    if not key:
        # The name is not told: the error goes to the lake, and it may be the key itself.
        raise HookFailedError("the environment variable that key_env names is not set, or is empty")
    return key


def _parts(url: str) -> SplitResult:
    # The URL is not shown: it may hold credentials.
    step = "write it as https://host/path, with %XX for other than printable ASCII characters"
    if not isinstance(url, str) or not _PLAIN.fullmatch(url):
        raise InvalidInputError("the URL of a webhook is not one", step)
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise InvalidInputError("the URL of a webhook is not one of http:// or https://", step)
    return parts


def _host(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _authorization(parts: SplitResult) -> dict[str, str]:
    user, at, _ = parts.netloc.rpartition("@")
    if not at:
        return {}
    return {"Authorization": f"Basic {b64encode(unquote(user).encode()).decode()}"}
