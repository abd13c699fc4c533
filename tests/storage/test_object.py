"""Object storage: which answer of a service becomes which value or error of ours."""

from __future__ import annotations

import inspect
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import obstore
import pytest
from obstore import exceptions as reasons

from headgate.errors import (
    HeadgateError,
    InvalidInputError,
    NoAnswerError,
    NotOfferedError,
    StorageError,
    StorageRefusedError,
    UnsupportedError,
)
from headgate.storage.capabilities import Page, Tail
from headgate.storage.location import open_store
from headgate.storage.object import ERRORS, ObjectStore, storage_error
from tests.servers.s3 import S3Server
from tests.storage.scripted_server import Reply, ScriptedServer, s3_error

ACCESS_KEY = "AKIAEXAMPLEEXAMPLE12"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"

Storage = Callable[..., tuple[ObjectStore, ScriptedServer]]

CALLS: dict[str, Callable[[ObjectStore], object]] = {
    "get": lambda store: store.get("a/key"),
    "put": lambda store: store.put("a/key", b"data"),
    "put_if_absent": lambda store: store.put_if_absent("a/key", b"data"),
    "delete": lambda store: store.delete("a/key"),
    "list_page": lambda store: store.list_page("a/"),
}


def store_at(endpoint: str, **options: str) -> ObjectStore:
    credentials = {"access_key_id": ACCESS_KEY, "secret_access_key": SECRET, "region": "us-east-1"}
    store = open_store("s3://bucket/lake", {"endpoint": endpoint, **credentials, **options})
    assert isinstance(store, ObjectStore)
    return store


@pytest.fixture
def storage() -> Iterator[Storage]:
    """A store whose service gives these replies."""
    with ExitStack() as running:

        def start(*replies: Reply) -> tuple[ObjectStore, ScriptedServer]:
            server = running.enter_context(ScriptedServer(*replies).running())
            return store_at(server.endpoint), server

        yield start


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port: int = unused.getsockname()[1]
    return port


# The table of errors.


def test_every_exception_of_obstore_has_a_meaning() -> None:
    known = {cls for _, cls in inspect.getmembers(reasons, inspect.isclass) if issubclass(cls, Exception)}
    assert known - set(ERRORS) == set()
    assert len(known) > 5


@pytest.mark.parametrize("reason", ERRORS, ids=lambda reason: reason.__name__)
def test_every_exception_becomes_one_of_our_tree(reason: type[Exception]) -> None:
    error = storage_error("cannot do it", reason("text of obstore\nand more"))
    assert isinstance(error, HeadgateError)
    assert str(error).startswith("cannot do it: text of obstore")
    assert "and more" not in str(error)


def test_an_unknown_exception_may_have_been_a_success() -> None:
    assert isinstance(storage_error("cannot do it", OSError("surprise")), NoAnswerError)


# One request for one call.


@pytest.mark.parametrize(
    ("call", "method"),
    [("get", "GET"), ("put", "PUT"), ("put_if_absent", "PUT"), ("delete", "DELETE"), ("list_page", "GET")],
)
def test_a_call_is_one_request(storage: Storage, call: str, method: str) -> None:
    empty = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
    store, server = storage(Reply(200, empty if call == "list_page" else b""))
    CALLS[call](store)
    assert server.methods() == [method]
    condition = {name.lower(): value for name, value in server.seen[0].headers.items()}.get("if-none-match")
    assert condition == ("*" if call == "put_if_absent" else None)


# What is there, what is not, and where nothing can be.


def test_an_object_that_is_missing_is_none(storage: Storage) -> None:
    store, server = storage(s3_error(404, "NoSuchKey"))
    assert store.get("a/key") is None
    store.delete("a/key")
    assert len(server.seen) == 2


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("code", ["NoSuchBucket", "ContainerNotFound"])
def test_a_bucket_that_is_missing_is_an_error(storage: Storage, call: str, code: str) -> None:
    store, _ = storage(s3_error(404, code, "The specified bucket does not exist"))
    with pytest.raises(StorageRefusedError, match=f"404 Not Found: {code}") as raised:
        CALLS[call](store)
    assert "s3://bucket/lake/a/" in raised.value.problem
    assert raised.value.next_step == "check that the bucket or container exists"


@pytest.mark.parametrize("reply", [s3_error(412, "PreconditionFailed"), s3_error(409, "Conflict")])
def test_a_create_that_is_refused_returns_false(storage: Storage, reply: Reply) -> None:
    store, server = storage(reply)
    assert store.put_if_absent("a/key", b"data") is False
    assert len(server.seen) == 1


def test_a_create_can_be_refused_by_its_own_first_try(storage: Storage) -> None:
    store, server = storage(s3_error(500, "InternalError"), s3_error(412, "PreconditionFailed"))
    assert store.put_if_absent("a/key", b"data") is False
    assert server.methods() == ["PUT", "PUT"]


# Refusals.


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("status", [400, 401, 403, 405, 413])
def test_a_clear_no_is_a_refusal(storage: Storage, call: str, status: int) -> None:
    store, server = storage(s3_error(status, "SomeCode", "some message"))
    with pytest.raises(StorageRefusedError, match="SomeCode: some message") as raised:
        CALLS[call](store)
    assert "s3://bucket/lake/a/" in raised.value.problem
    assert server.endpoint in raised.value.problem
    assert len(server.seen) == 1


@pytest.mark.parametrize("call", CALLS)
def test_wrong_credentials_are_named_but_not_shown(storage: Storage, call: str) -> None:
    shown = f"<AWSAccessKeyId>{ACCESS_KEY}</AWSAccessKeyId><StringToSign>{SECRET}</StringToSign>"
    message = f"The key {ACCESS_KEY} is wrong"
    store, _ = storage(s3_error(403, "SignatureDoesNotMatch", message, shown))
    with pytest.raises(StorageRefusedError, match="SignatureDoesNotMatch") as raised:
        CALLS[call](store)
    assert "check the credentials" in raised.value.next_step
    for secret in (ACCESS_KEY, SECRET):
        assert secret not in str(raised.value)
        assert secret not in repr(raised.value.__cause__)


def test_a_wrong_region_says_so(storage: Storage) -> None:
    store, _ = storage(s3_error(301, "PermanentRedirect"))
    with pytest.raises(StorageRefusedError, match="region") as raised:
        store.put("a/key", b"")
    assert "AWS_REGION" in raised.value.next_step


def test_missing_credentials_are_named(closed_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    endpoint = f"http://127.0.0.1:{closed_port}"
    options = {"endpoint": endpoint, "metadata_endpoint": endpoint, "region": "us-east-1"}
    store = open_store("s3://bucket/lake", options)
    with pytest.raises(StorageRefusedError, match="there are no credentials") as raised:
        store.put("a/key", b"")
    assert "AWS_ACCESS_KEY_ID" in raised.value.next_step


@pytest.mark.parametrize("call", ["put", "put_if_absent", "delete"])
def test_a_no_to_a_repeat_says_nothing_about_the_first_try(storage: Storage, call: str) -> None:
    """The first request may have been carried out: taking the second answer for it could lose a commit."""
    store, server = storage(s3_error(500, "InternalError"), s3_error(403, "ExpiredToken"))
    with pytest.raises(NoAnswerError, match="ExpiredToken"):
        CALLS[call](store)
    assert len(server.seen) == 2


# No answer.


@pytest.mark.parametrize("call", ["get", "put_if_absent", "list_page"])
def test_a_service_in_trouble_is_asked_again_and_then_given_up(storage: Storage, call: str) -> None:
    store, server = storage(s3_error(503, "SlowDown", "Please reduce your request rate."))
    with pytest.raises(NoAnswerError, match="503 Service Unavailable: SlowDown"):
        CALLS[call](store)
    assert len(server.seen) == 5


@pytest.mark.parametrize("replies", [(), (s3_error(500, "InternalError"),)])
def test_a_request_that_the_service_does_not_know_is_said_to_be_one(
    storage: Storage, replies: tuple[Reply, ...]
) -> None:
    """Still doubt for a commit: an earlier try may have been carried out."""
    store, _ = storage(*replies, s3_error(501, "NotImplemented", "A header you provided is not implemented"))
    with pytest.raises(NotOfferedError, match="501 Not Implemented: NotImplemented") as raised:
        store.put_if_absent("a/key", b"data")
    assert isinstance(raised.value, NoAnswerError)


def test_trouble_that_passes_is_not_noticed(storage: Storage) -> None:
    store, server = storage(s3_error(503, "SlowDown"), Reply(200))
    store.put("a/key", b"data")
    assert len(server.seen) == 2


def test_a_body_that_breaks_off_is_no_answer(storage: Storage) -> None:
    store, _ = storage(Reply(200, b"half", declared_length=100))
    with pytest.raises(NoAnswerError, match="cannot read s3://bucket/lake/a/key"):
        store.get("a/key")


@pytest.mark.parametrize("call", CALLS)
def test_a_closed_port_fails_soon(closed_port: int, call: str) -> None:
    started = time.monotonic()
    with pytest.raises(NoAnswerError, match=f"no answer from http://127.0.0.1:{closed_port}") as raised:
        CALLS[call](store_at(f"http://127.0.0.1:{closed_port}"))
    assert "Connection refused" in raised.value.problem
    assert time.monotonic() - started < 15


def test_a_service_that_hangs_is_given_up() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(16)
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        started = time.monotonic()
        with pytest.raises(NoAnswerError, match="Timeout"):
            store_at(endpoint, timeout="100ms").put("a/key", b"")
    assert time.monotonic() - started < 15


# Keys and pages.


def test_keys_are_checked_before_anything_is_sent(closed_port: int) -> None:
    store = store_at(f"http://127.0.0.1:{closed_port}")
    for key in ("", "/a", "a/../b", "tab\tin key"):
        with pytest.raises(InvalidInputError):
            store.get(key)


@pytest.mark.slow
def test_listings_have_pages_of_a_thousand_keys_and_cost_one_request_each(s3: S3Server) -> None:
    store = open_store(s3.url("a-thousand-and-two"), s3.options)
    for number in range(1002):
        store.put(f"log/{number:04}", b"")
    s3.reset_counts()
    first = store.list_page("log/")
    assert (len(first.keys), first.complete) == (1000, False)
    assert s3.counts() == {"LIST": 1}
    assert store.list_page("log/", first.keys[-1]) == Page(("log/1000", "log/1001"), complete=True)
    assert s3.counts() == {"LIST": 2}


@pytest.mark.slow
def test_a_bucket_that_is_missing_on_a_server(s3: S3Server) -> None:
    store = open_store("s3://no-such-bucket/lake", s3.options)
    for call in (lambda: store.get("key"), lambda: store.put("key", b""), lambda: store.list_page("")):
        with pytest.raises(StorageRefusedError, match="NoSuchBucket"):
            call()


# Processes. obstore's threads do not survive a fork, and a child that calls it can hang its parent.

FORKING = """
import os, sys
from headgate.errors import UnsupportedError
from headgate.storage.location import open_store

store = open_store("s3://bucket/lake", {{
    "endpoint": {endpoint!r}, "access_key_id": "a", "secret_access_key": "b", "region": "us-east-1"}})
if {used_before}:
    store.get("before")
child = os.fork()
if child == 0:
    try:
        store.get("in the child")
    except UnsupportedError as error:
        os._exit(3 if "spawn" in error.next_step else 4)
    os._exit(0)
_, status = os.waitpid(child, 0)
store.get("after")
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize(("used_before", "expected"), [(True, 3), (False, 0)])
def test_a_forked_child_is_stopped_if_its_parent_used_object_storage(
    storage: Storage, used_before: bool, expected: int
) -> None:
    _, server = storage(Reply(200))
    script = FORKING.format(endpoint=server.endpoint, used_before=used_before)
    result = subprocess.run([sys.executable, "-c", script], check=False, timeout=60)
    assert result.returncode == expected
    assert len(server.seen) == 2


# Options that switch conditional writes off.


def test_a_service_without_conditional_writes_is_unsupported(closed_port: int) -> None:
    store = store_at(f"http://127.0.0.1:{closed_port}", conditional_put="disabled")
    with pytest.raises(UnsupportedError):
        store.put_if_absent("a/key", b"")


def test_errors_of_storage_are_storage_errors() -> None:
    assert {kind for kind in ERRORS.values() if issubclass(kind, StorageError)} == {
        NoAnswerError,
        StorageRefusedError,
    }


def test_an_option_with_a_line_end_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidInputError, match="option 'access_key_id' has control characters") as caught:
        open_store("s3://bucket/lake", {"access_key_id": "key-of-a-file\n"})
    assert "key-of-a-file" not in str(caught.value)


def test_a_client_that_breaks_off_is_a_storage_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As obstore does over a credential with a line end from the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key\n")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    store = open_store("s3://bucket/lake", {"endpoint": "http://127.0.0.1:1", "region": "x"})
    with pytest.raises(NoAnswerError) as caught:
        store.get("a")
    assert "key" not in caught.value.problem.replace("keys", "")


@pytest.mark.parametrize("length", [0, 3, 10])
def test_the_end_of_an_object_where_it_cannot_be_asked_for(
    monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    """As on Azure, whose client refuses it before anything is sent: its size is asked for first."""
    store = ObjectStore(obstore.store.MemoryStore(), "memory://azure")
    store.put("a/key", b"0123456789"[:length])
    given = obstore.get

    def without_ends(store: Any, key: str, options: object = None) -> object:
        if options is not None:
            raise reasons.NotSupportedError("Azure does not support suffix range requests")
        return given(store, key)

    monkeypatch.setattr(obstore, "get", without_ends)
    assert store.tail("a/key", 4) == Tail(b"0123456789"[:length][-4:], length)
    assert store.tail("a/other", 4) is None
