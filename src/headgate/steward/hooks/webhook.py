"""The action `webhook`: POSTs the event as JSON, in one request that another thread can abort."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import os
import re
import socket
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

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
    """POSTs the event as JSON to `url`. Any answer but 2xx is a failure, and redirects are not followed.

    The header `X-Headgate-Event` contains the id of the event. With `key_env`, the name of an environment
    variable that contains a key, the header `X-Headgate-Signature` is `sha256=` followed by the HMAC of the
    body in hexadecimal. The whole exchange takes at most `timeout_seconds`. Proxies come from the
    environment.
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
                "key_env must be the name of an environment variable",
                'put the key into the environment, and its name here: key_env="ORDERS_KEY"',
            )

    def run(self, event: CommitEvent) -> None:

        exchange = Exchange(self._request(event), self.timeout_seconds)
        within(self.timeout_seconds, exchange.run, on_late=exchange.break_off)

    def describe(self) -> str:
        """Leaves out the path, because many services put the credential there."""
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
        # The name is not shown: the error is stored in the lake, and the name may be the key itself.
        raise HookFailedError("the environment variable that key_env names is not set, or is empty")
    return key


def _parts(url: str) -> SplitResult:
    # The URL is not shown: it may contain credentials.
    step = "write it as https://host/path, and encode characters that are not printable ASCII as %XX"
    if not isinstance(url, str) or not _PLAIN.fullmatch(url):
        raise InvalidInputError("the url of the webhook is not a valid URL", step)
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise InvalidInputError("the url of the webhook must begin with http:// or https://", step)
    return parts


def _host(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _authorization(parts: SplitResult) -> dict[str, str]:
    user, at, _ = parts.netloc.rpartition("@")
    if not at:
        return {}
    return {"Authorization": f"Basic {b64encode(unquote(user).encode()).decode()}"}


class Exchange:
    """Sends a request and expects an answer with a 2xx code. Does not read the body of the answer."""

    def __init__(self, request: Request, timeout_seconds: float) -> None:
        self._request = request
        self._timeout_seconds = timeout_seconds
        self._connections: list[http.client.HTTPConnection] = []

    def run(self) -> None:
        opener = build_opener(_Plain(self._connections), _Encrypted(self._connections), _NoRedirects())
        try:
            # This timeout applies to each step; the caller bounds the whole exchange.
            opener.open(self._request, timeout=self._timeout_seconds).close()
        except HTTPError as error:
            error.close()
            raise HookFailedError(f"the webhook answered {_answer(error)}") from None
        except URLError as error:
            raise HookFailedError(f"cannot reach the webhook: {error.reason}") from None
        except (OSError, http.client.HTTPException) as error:
            told = f"{type(error).__name__}: {error}"
            raise HookFailedError(f"the webhook sent no valid answer: {told}") from None

    def break_off(self) -> str:
        """Aborts it from another thread, so that waiting for the server fails at once; says so."""
        for connection in self._connections:
            if isinstance(connection.sock, socket.socket):
                with suppress(OSError):  # closed meanwhile, or not yet connected
                    connection.sock.shutdown(socket.SHUT_RDWR)
        return "the webhook did not answer in time"


def _answer(error: HTTPError) -> str:
    told = f"{error.code} {error.reason}".strip()
    return f"{told}; redirects are not followed" if 300 <= error.code < 400 else told


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> None:
        """Never redirects: the event and its signature are only for the named server."""
        del req, fp, code, msg, headers, newurl


class _Plain(HTTPHandler):
    def __init__(self, opened: list[http.client.HTTPConnection]) -> None:
        super().__init__()
        self._opened = opened

    def http_open(self, req: Request) -> http.client.HTTPResponse:
        def connection(host: str, **settings: Any) -> http.client.HTTPConnection:
            self._opened.append(http.client.HTTPConnection(host, **settings))
            return self._opened[-1]

        return self.do_open(connection, req)


class _Encrypted(HTTPSHandler):
    def __init__(self, opened: list[http.client.HTTPConnection]) -> None:
        super().__init__()
        self._opened = opened

    def https_open(self, req: Request) -> http.client.HTTPResponse:
        def connection(host: str, **settings: Any) -> http.client.HTTPConnection:
            self._opened.append(http.client.HTTPSConnection(host, **settings))
            return self._opened[-1]

        return self.do_open(connection, req)
