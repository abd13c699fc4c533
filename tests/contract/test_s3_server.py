"""The S3 API server for tests: what it promises to those who test with it."""

from __future__ import annotations

import importlib.util
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import pytest

from headgate.errors import UnsupportedError
from headgate.storage.location import open_store
from headgate.storage.object import ObjectStore
from headgate.testing.contracts import race
from tests.servers.s3 import Behaviour, S3Server, round_trips, s3_server

slow = pytest.mark.slow


@pytest.fixture
def store(s3: S3Server, request: pytest.FixtureRequest) -> ObjectStore:
    store = open_store(s3.url(request.node.name), s3.options)
    assert isinstance(store, ObjectStore)
    return store


@slow
def test_creates_that_race_have_one_winner(store: ObjectStore) -> None:
    """moto alone does not hold this: it looks and writes in two steps."""
    for number in range(40):
        won = race([partial(store.put_if_absent, f"{number}", bytes([racer])) for racer in range(8)])
        assert won.count(True) == 1


@slow
def test_it_can_ignore_the_condition(s3: S3Server, store: ObjectStore) -> None:
    assert store.put_if_absent("key", b"1")
    with s3.behaving(Behaviour(ignore_if_none_match=True)):
        assert store.put_if_absent("key", b"2")
        assert store.get("key") == b"2"
    assert not store.put_if_absent("key", b"3")


@slow
def test_latency_is_for_each_request_and_side_by_side(s3: S3Server, store: ObjectStore) -> None:
    store.put("key", b"")
    with s3.behaving(Behaviour(latency_seconds=0.2)):
        started = time.monotonic()
        race([partial(store.get, "key")] * 8)
        took = time.monotonic() - started
    assert 0.2 <= took < 8 * 0.2


@slow
def test_requests_are_counted_by_method(s3: S3Server, store: ObjectStore) -> None:
    s3.reset_counts()
    store.put("a", b"")
    store.put_if_absent("b", b"")
    store.get("a")
    store.list_page("")
    store.delete("a")
    assert s3.counts() == {"PUT": 2, "GET": 1, "LIST": 1, "DELETE": 1}
    s3.reset_counts()
    assert s3.counts() == {}


@slow
def test_requests_are_traced_with_what_waited_for_what(s3: S3Server, store: ObjectStore) -> None:
    s3.reset_counts()
    with s3.behaving(Behaviour(latency_seconds=0.2)):
        race([partial(store.put, f"{number}", b"") for number in range(4)])
        store.get("0")
    trace = s3.trace()
    assert [request.kind for request in trace] == ["PUT"] * 4 + ["GET"]
    assert trace[-1].path.endswith("/0")
    assert round_trips(trace) == 2
    s3.reset_counts()
    assert s3.trace() == []


@slow
def test_a_body_in_chunks_whose_client_waits_to_be_told_to_go_on(s3: S3Server, store: ObjectStore) -> None:
    host, _, port = s3.endpoint.removeprefix("http://").partition(":")
    path = s3.url("").removeprefix("s3://").rstrip("/")
    key = f"/{path}/test_a_body_in_chunks_whose_client_waits_to_be_told_to_go_on/key"
    head = f"PUT {key} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(head.encode())
        assert connection.recv(1024).startswith(b"HTTP/1.1 100")
        connection.sendall(b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")
        assert b" 200 " in connection.recv(1024).splitlines()[0]
    assert store.get("key") == b"hello world"


@slow
def test_the_environment_is_enough_to_reach_it(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    store = open_store(s3.url("by environment"))
    store.put("key", b"1")
    assert open_store(s3.url("by environment"), s3.options).get("key") == b"1"


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not happen within 30 seconds"
        time.sleep(0.01)


def answers(endpoint: str) -> bool:
    host, _, port = endpoint.removeprefix("http://").partition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except ConnectionRefusedError:
        return False
    return True


@slow
def test_it_ends_with_the_block() -> None:
    with s3_server() as server:
        assert answers(server.endpoint)
    assert not answers(server.endpoint)


@slow
def test_it_ends_when_its_parent_is_killed() -> None:
    script = (
        "from tests.servers.s3 import S3Server; server = S3Server()\n"
        "print(server.endpoint, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        endpoint = parent.stdout.readline().strip()
        assert answers(endpoint)
        parent.send_signal(signal.SIGKILL)
    wait_until(lambda: not answers(endpoint))


def test_without_moto_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match="needs moto") as raised:
        S3Server()
    assert "pip install" in raised.value.next_step
