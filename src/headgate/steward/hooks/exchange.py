"""One request and its answer, which can be broken off from outside."""

from __future__ import annotations

import http.client
import socket
from contextlib import suppress
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from headgate.errors import HookFailedError


class Exchange:
    """Sends a request and wants an answer with a 2xx code. The body of the answer is not read."""

    def __init__(self, request: Request, timeout_seconds: float) -> None:
        self._request = request
        self._timeout_seconds = timeout_seconds
        self._connections: list[http.client.HTTPConnection] = []

    def run(self) -> None:
        opener = build_opener(_Plain(self._connections), _Encrypted(self._connections), _NoRedirects())
        try:
            # This time-out is that of each step; whoever runs the exchange bounds the whole of it.
            opener.open(self._request, timeout=self._timeout_seconds).close()
        except HTTPError as error:
            error.close()
            raise HookFailedError(f"the webhook answered {_answer(error)}") from None
        except URLError as error:
            raise HookFailedError(f"the webhook cannot be reached: {error.reason}") from None
        except (OSError, http.client.HTTPException) as error:
            told = f"{type(error).__name__}: {error}"
            raise HookFailedError(f"the webhook did not answer properly: {told}") from None

    def break_off(self) -> str:
        """Ends it from another thread: what waits for the server fails at once. Says that it did."""
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
        """The event, and its signature, are for the one who was named."""
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
