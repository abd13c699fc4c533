"""The process behind `tests.servers.s3`: moto's S3, and a gate that all requests go through.

moto looks whether an object exists and writes it in two steps, and its own server runs requests in threads:
of racing `If-None-Match: *` requests several can succeed. So the gate lets one request at a time into moto.
That costs nothing, since moto is pure Python and never did two at a time. The gate also counts, delays, and
can make moto look like a storage that ignores `If-None-Match`.

Connections are kept open between requests, which the server that comes with moto does not do.
"""

from __future__ import annotations

import io
import json
import os
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, TypeAlias
from urllib.parse import parse_qs
from wsgiref.simple_server import WSGIRequestHandler

CONTROL = "/headgate-gate/"
"""Where the gate itself is spoken to; everything else is S3."""

MAX_TRACE = 10_000
"""How many requests are remembered, with the times at which they came and were answered."""

Headers: TypeAlias = list[tuple[str, str]]
Application: TypeAlias = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How the storage behind the gate seems to be."""

    latency_seconds: float = 0.0
    """How long each request takes at least. Requests wait side by side."""
    ignore_if_none_match: bool = False
    """Every create succeeds, as with services that do not know the header."""

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Behaviour:
        return cls(**json.loads(data))


@dataclass(frozen=True, slots=True)
class Response:
    status: str
    headers: Headers
    body: bytes


_EMPTY = Response("204 No Content", [], b"")


def _json(body: bytes) -> Response:
    return Response("200 OK", [("Content-Length", str(len(body)))], body)


class Gate:
    """Stands before an S3 application. Safe to share by threads."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._one_at_a_time = threading.Lock()
        self._counting = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._trace: deque[dict[str, Any]] = deque(maxlen=MAX_TRACE)
        self._behaviour = Behaviour()

    def answer(self, environ: dict[str, Any], body: bytes) -> Response:
        if environ["PATH_INFO"].startswith(CONTROL):
            return self._control(environ["REQUEST_METHOD"], environ["PATH_INFO"].removeprefix(CONTROL), body)
        began, kind = time.monotonic(), _kind(environ)
        with self._counting:
            self._counts[kind] += 1
        behaviour = self._behaviour
        time.sleep(behaviour.latency_seconds)
        if behaviour.ignore_if_none_match:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        environ["wsgi.input"] = io.BytesIO(body)
        with self._one_at_a_time:
            response = _called(self._application, environ)
        asked = {"kind": kind, "path": environ["PATH_INFO"], "query": environ["QUERY_STRING"]}
        with self._counting:
            self._trace.append({**asked, "began": began, "ended": time.monotonic()})
        return response

    def _control(self, method: str, what: str, body: bytes) -> Response:
        match method, what:
            case "PUT", "behaviour":
                self._behaviour = Behaviour.from_json(body)
                return _EMPTY
            case "GET", "counts":
                with self._counting:
                    return _json(json.dumps(self._counts).encode())
            case "GET", "trace":
                with self._counting:
                    return _json(json.dumps(list(self._trace)).encode())
            case "DELETE", "counts":
                with self._counting:
                    self._counts.clear()
                    self._trace.clear()
                return _EMPTY
            case _:
                return Response("404 Not Found", [("Content-Length", "0")], b"")


def _kind(environ: dict[str, Any]) -> str:
    method: str = environ["REQUEST_METHOD"]
    return "LIST" if method == "GET" and "list-type" in parse_qs(environ["QUERY_STRING"]) else method


def _called(application: Application, environ: dict[str, Any]) -> Response:
    started: list[tuple[str, Headers]] = []
    body = b"".join(application(environ, lambda status, headers, _=None: started.append((status, headers))))
    status, headers = started[-1]
    if not any(name.lower() == "content-length" for name, _ in headers):
        headers = [*headers, ("Content-Length", str(len(body)))]
    return Response(status, headers, body)


def _chunks(stream: io.BufferedIOBase) -> bytes:
    """A body that comes in pieces, each after its length, as clients send that do not know it beforehand."""
    pieces = []
    while length := int(stream.readline().partition(b";")[0], 16):
        pieces.append(stream.read(length))
        stream.readline()
    while stream.readline().strip():
        pass  # what may follow the last piece says nothing of the body
    return b"".join(pieces)


class _Connection(WSGIRequestHandler):
    """One connection of a client: request after request, until it is closed."""

    protocol_version = "HTTP/1.1"
    # Head and body of an answer leave together: sent apart, the second could wait for the client's
    # acknowledgement of the first.
    wbufsize = 1 << 16
    disable_nagle_algorithm = True
    server: _Server

    def handle(self) -> None:
        with suppress(ConnectionError):  # a client that is gone needs no answer
            BaseHTTPRequestHandler.handle(self)

    def handle_expect_100(self) -> bool:
        said = super().handle_expect_100()
        # At once: the client sends no body before it has it, or only after a second.
        self.wfile.flush()
        return said

    def _run(self) -> None:
        # Always read to the end, or the rest would be taken for the next request.
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            body = _chunks(self.rfile)
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        environ = {**self.get_environ(), "RAW_URI": self.path, "CONTENT_LENGTH": str(len(body))}
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        response = self.server.gate.answer(environ, body)
        code, _, phrase = response.status.partition(" ")
        self.send_response(int(code), phrase)
        for name, value in response.headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _run  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


class _Server(ThreadingMixIn, TCPServer):
    """A thread for each connection."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, gate: Gate) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.gate = gate
        self.port: int = self.server_address[1]
        self.base_environ = {
            "SERVER_NAME": "127.0.0.1",
            "SERVER_PORT": str(self.port),
            "SCRIPT_NAME": "",
            "CONTENT_LENGTH": "",
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": False,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }


def _end_with_parent() -> None:
    """The parent holds the other end of our input: it is closed when the parent ends, however it ends."""
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    """Serves until the parent is gone. Prints the port as soon as it is open."""
    from moto.moto_server.werkzeug_app import create_backend_app

    server = _Server(Gate(create_backend_app("s3")))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
