"""An S3 API server for tests and benchmarks, on this machine, with nothing to install but moto.

The server is a process of its own, so that it does not share a lock on the interpreter with the code under
test. It holds everything in memory. It ends with the process that started it, also if that one is killed.
"""

from __future__ import annotations

import importlib.util
import json
import select
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from types import MappingProxyType

from headgate.errors import UnsupportedError
from tests.servers.s3_gate import CONTROL, Behaviour

__all__ = ["Behaviour", "S3Server", "TracedRequest", "round_trips", "s3_server"]

START_SECONDS = 60.0
"""How long the server may take to open its port."""
CONTROL_SECONDS = 30.0
"""How long the server may take to answer a request that is not S3."""


@dataclass(frozen=True, slots=True)
class TracedRequest:
    """A request as the server saw it; times in seconds on its own clock, which only moves forward."""

    kind: str
    path: str
    query: str
    began: float
    ended: float


def round_trips(requests: Iterable[TracedRequest]) -> int:
    """How many of the requests waited for one another, one after the other: the longest such row of them."""
    trips, last = 0, float("-inf")
    for request in sorted(requests, key=lambda one: one.ended):
        if request.began >= last:
            trips, last = trips + 1, request.ended
    return trips


class S3Server:
    """A running server with one bucket.

    `options` are for `open_store`; `environment` says the same in the variables that every S3 client knows.
    Any credentials are accepted.
    """

    def __init__(self, bucket: str = "lakes") -> None:
        _require_moto()
        self.bucket = bucket
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.servers.s3_gate"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            self._port = _announced_port(self._process)
            self._ask("PUT", f"/{bucket}")
        except BaseException:
            self.stop()
            raise
        self._behaviour = Behaviour()
        self.endpoint = f"http://127.0.0.1:{self._port}"
        self.options = MappingProxyType(
            {
                "endpoint": self.endpoint,
                "region": "us-east-1",
                "access_key_id": "testing",
                "secret_access_key": "testing",
            }
        )
        self.environment = MappingProxyType(
            {
                "AWS_ENDPOINT_URL": self.endpoint,
                "AWS_REGION": "us-east-1",
                "AWS_ACCESS_KEY_ID": "testing",
                "AWS_SECRET_ACCESS_KEY": "testing",
            }
        )

    def url(self, prefix: str = "") -> str:
        """Where a lake can lie: `prefix` in the bucket."""
        return f"s3://{self.bucket}/{prefix}".rstrip("/")

    def counts(self) -> dict[str, int]:
        """Requests since the start or the last reset, by method; listings are `LIST`, not `GET`."""
        return dict(json.loads(self._ask("GET", f"{CONTROL}counts")))

    def trace(self) -> list[TracedRequest]:
        """The requests since the start or the last reset, in the order in which they were answered.

        Only the newest ten thousand are remembered.
        """
        return [TracedRequest(**each) for each in json.loads(self._ask("GET", f"{CONTROL}trace"))]

    def reset_counts(self) -> None:
        self._ask("DELETE", f"{CONTROL}counts")

    @contextmanager
    def behaving(self, behaviour: Behaviour) -> Iterator[None]:
        """Inside, the storage behaves like that; behind it, as before."""
        before = self._behaviour
        self._behave(behaviour)
        try:
            yield
        finally:
            self._behave(before)

    def stop(self) -> None:
        """Ends the process. All objects are gone."""
        self._process.kill()
        self._process.communicate()

    def _behave(self, behaviour: Behaviour) -> None:
        self._ask("PUT", f"{CONTROL}behaviour", behaviour.to_json())
        self._behaviour = behaviour

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=CONTROL_SECONDS)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            assert response.status < 300, (method, path, response.status)
            return response.read()
        finally:
            connection.close()


@contextmanager
def s3_server(bucket: str = "lakes") -> Iterator[S3Server]:
    """A server that runs as long as the block."""
    server = S3Server(bucket)
    try:
        yield server
    finally:
        server.stop()


def _require_moto() -> None:
    if any(importlib.util.find_spec(name) is None for name in ("moto", "flask")):
        raise UnsupportedError("the S3 API server for tests needs moto", "pip install 'moto[s3,server]'")


def _announced_port(process: subprocess.Popen[bytes]) -> int:
    """The port, which the process prints when it is open."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], START_SECONDS)
    line = process.stdout.readline() if ready else b""
    if not line:
        raise UnsupportedError(f"the S3 API server did not start within {START_SECONDS:.0f} seconds")
    return int(line)
