"""A real HTTP server on the loopback interface, whose manners depend on the path that is asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Received:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class WebServer:
    """What it got, and whether somebody who was kept waiting has gone."""

    port: int
    received: list[Received] = field(default_factory=list)
    asked: threading.Event = field(default_factory=threading.Event)
    left_alone: threading.Event = field(default_factory=threading.Event)

    def url(self, path: str, user: str = "") -> str:
        return f"http://{user}127.0.0.1:{self.port}{path}"


class _Handler(BaseHTTPRequestHandler):
    web: WebServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.web.received.append(Received(self.path, dict(self.headers.items()), body))
        self.web.asked.set()
        match self.path.split("/")[1]:
            case "silent":
                self._wait_until_left_alone()
            case "dripping":
                self._drip()
            case "redirect":
                self._answer(307, {"Location": "/ok"})
            case "nonsense":
                self.wfile.write(b"hello\r\n")
            case "once-unwell" if len(self.web.received) == 1:
                self._answer(503)
            case code if code.isdigit():
                self._answer(int(code))
            case _:
                self._answer(200)

    def _answer(self, code: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": "0", **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()

    def _wait_until_left_alone(self) -> None:
        try:
            gone = self.connection.recv(1) == b""
        except ConnectionError:
            gone = True
        if gone:
            self.web.left_alone.set()

    def _drip(self) -> None:
        """A header that never ends, a byte at a time: no single wait is long."""
        try:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
            while not self.web.left_alone.wait(0.01):
                self.wfile.write(b"x")
        except ConnectionError:
            self.web.left_alone.set()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def web_server() -> Iterator[WebServer]:
    class Handler(_Handler):
        pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web = Handler.web = WebServer(server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield web
    finally:
        web.left_alone.set()
        server.shutdown()
        thread.join()
        server.server_close()
