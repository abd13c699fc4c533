"""An S3 server that seems as far away as real S3: MinIO on this machine, behind a proxy that adds a latency.

MinIO is built once, by Go, into `.bench/`. Where there is no Go, or its module proxy cannot be reached, the
server of the tests takes its place, and the page says so.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from benchmarks.harness.environment import CACHE
from benchmarks.harness.process import ROOT
from tests.servers.s3 import s3_server

from headgate.errors import UnsupportedError

MINIO = "github.com/minio/minio"
RELEASE = "v0.0.0-20260212201848-7aac2a2c5b7c"
"""RELEASE of MinIO, as Go names it."""
BUILD_SECONDS = 1800.0
START_SECONDS = 30.0
BUCKET = "lakes"
SECRET = "benchmark"
TEST_SERVER = "the test server of this repository (there was no MinIO)"


@dataclass(frozen=True, slots=True)
class FarStorage:
    """A running server. `kind` says which; `endpoint` is that of the proxy."""

    kind: str
    endpoint: str
    _proxy: subprocess.Popen[str]

    @property
    def options(self) -> Mapping[str, str]:
        """Options for `open_store`."""
        return {
            "endpoint": self.endpoint,
            "region": "us-east-1",
            "access_key_id": SECRET,
            "secret_access_key": SECRET,
        }

    def url(self, prefix: str = "") -> str:
        """A place in the bucket."""
        return f"s3://{BUCKET}/{prefix}".rstrip("/")

    def requests(self) -> int:
        """How many requests there have been."""
        assert self._proxy.stdin is not None and self._proxy.stdout is not None
        self._proxy.stdin.write("\n")
        self._proxy.stdin.flush()
        return int(self._proxy.stdout.readline())


@contextmanager
def far_storage(place: Path, latency_seconds: float, *, build: bool = True) -> Iterator[FarStorage]:
    """A server that keeps its objects below `place`, and ends with the block.

    Without `build`, it is MinIO only if an earlier run has built it.
    """
    with ExitStack() as stack:
        try:
            kind, port = "MinIO", stack.enter_context(_minio(_built(build=build), place))
        except UnsupportedError as error:
            print(f"bench: {error.problem}", file=sys.stderr)
            server = stack.enter_context(s3_server(BUCKET))
            kind, port = TEST_SERVER, int(server.endpoint.rpartition(":")[2])
        command = [sys.executable, "-m", "benchmarks.harness.latency_proxy", str(port), str(latency_seconds)]
        proxy = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True)
        stack.callback(_end, proxy)
        assert proxy.stdout is not None
        yield FarStorage(kind, f"http://127.0.0.1:{int(proxy.stdout.readline())}", proxy)


def _built(*, build: bool) -> Path:
    program = CACHE / "minio" / RELEASE / "minio"
    if program.exists():
        return program
    if not build:
        raise UnsupportedError("MinIO is not built for a run of this size")
    go = shutil.which("go")
    if go is None:
        raise UnsupportedError("there is no Go on the PATH that could build MinIO")
    print("bench: building MinIO (minutes, the first time)", file=sys.stderr)
    program.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOBIN": str(program.parent)}
    try:
        done = subprocess.run(
            [go, "install", f"{MINIO}@{RELEASE}"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UnsupportedError(f"Go did not build MinIO within {BUILD_SECONDS:g} seconds") from error
    if done.returncode != 0:
        raise UnsupportedError(f"Go cannot build MinIO: {done.stderr.strip()[-300:]}")
    return program


@contextmanager
def _minio(program: Path, place: Path) -> Iterator[int]:
    """The port of a server with an empty bucket."""
    port = _free_port()
    place.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "MINIO_ROOT_USER": SECRET, "MINIO_ROOT_PASSWORD": SECRET}
    with (place / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [program, "server", "--address", f"127.0.0.1:{port}", str(place / "objects")],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_until_ready(server, port)
        # A directory is a bucket for MinIO, and Headgate's client makes no buckets.
        (place / "objects" / BUCKET).mkdir()
        yield port
    finally:
        _end(server)


def _wait_until_ready(server: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and server.poll() is None:
        if _is_ready(port):
            return
        time.sleep(0.05)
    raise UnsupportedError(f"MinIO did not start within {START_SECONDS:g} seconds")


def _is_ready(port: int) -> bool:
    with (
        closing(HTTPConnection("127.0.0.1", port, timeout=1)) as connection,
        suppress(OSError, HTTPException),
    ):
        connection.request("GET", "/minio/health/ready")
        return connection.getresponse().status == 200
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()
