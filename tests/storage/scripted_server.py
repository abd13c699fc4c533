"""An HTTP server that answers from a script: for what a real service does too rarely to wait for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

OBJECT_HEADERS = {"ETag": '"tag"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes = b""
    declared_length: int | None = None
    """A body that breaks off before its end, if it is shorter."""


@dataclass(frozen=True, slots=True)
class Seen:
    method: str
    path: str
    headers: dict[str, str]


class ScriptedServer:
    """Gives the replies in order, the last one again and again."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = list(replies)
        self._lock = threading.Lock()
        self.seen: list[Seen] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def methods(self) -> list[str]:
        return [seen.method for seen in self.seen]

    def reply_to(self, seen: Seen) -> Reply:
        with self._lock:
            self.seen.append(seen)
            return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]

    @contextmanager
    def running(self) -> Iterator[ScriptedServer]:
        thread = threading.Thread(target=lambda: self._server.serve_forever(poll_interval=0.01))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        script = self

        class Handler(BaseHTTPRequestHandler):
            # A connection for each request, so that closing the server has nothing to wait for.
            protocol_version = "HTTP/1.0"

            def _run(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                reply = script.reply_to(Seen(self.command, self.path, dict(self.headers.items())))
                self.send_response(reply.status)
                for name, value in OBJECT_HEADERS.items():
                    self.send_header(name, value)
                length = len(reply.body) if reply.declared_length is None else reply.declared_length
                self.send_header("Content-Length", str(length))
                self.end_headers()
                self.wfile.write(reply.body)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _run  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:
                """Nobody reads it."""

        return Handler


def s3_error(status: int, code: str, message: str = "", extra: str = "") -> Reply:
    """An error in the words of S3."""
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{code}</Code><Message>{message}</Message>{extra}</Error>"
    )
    return Reply(status, body.encode())
