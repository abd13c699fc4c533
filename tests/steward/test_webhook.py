"""The action webhook, against a real server: signature, failures, and time-outs of the whole exchange."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headgate.errors import HookFailedError, InvalidInputError
from headgate.hooks import CommitEvent, Webhook
from tests.steward.http_server import WebServer, web_server

EVENT = CommitEvent("lake-1", "lake", "/lake", 1, "tx", "commit", descriptor={"user": "zoë"})
KEY = "ORDERS_KEY"


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy of the machine between the test and its server."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def web() -> Iterator[WebServer]:
    with web_server() as server:
        yield server


def failure(act: Callable[[], object]) -> str:
    with pytest.raises(HookFailedError) as caught:
        act()
    return caught.value.problem


def test_the_event_is_posted_and_signed(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "hunter2")
    Webhook(web.url("/hook?a=b"), key_env=KEY).run(EVENT)
    (got,) = web.received
    assert (got.path, json.loads(got.body)) == ("/hook?a=b", EVENT.to_json())
    assert got.headers["Content-Type"] == "application/json"
    assert got.headers["X-Headgate-Event"] == "lake-1"
    expected = hmac.new(b"hunter2", got.body, hashlib.sha256).hexdigest()
    assert got.headers["X-Headgate-Signature"] == f"sha256={expected}"
    assert b"hunter2" not in got.body


def test_without_a_key_there_is_no_signature(web: WebServer) -> None:
    Webhook(web.url("")).run(EVENT)
    assert web.received[0].path == "/"
    assert "X-Headgate-Signature" not in web.received[0].headers


@pytest.mark.parametrize("value", [None, ""])
def test_a_key_that_is_not_there_is_a_failure_and_nothing_is_sent(
    web: WebServer, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    if value is None:
        monkeypatch.delenv(KEY, raising=False)
    else:
        monkeypatch.setenv(KEY, value)
    told = failure(lambda: Webhook(web.url("/ok"), key_env=KEY).run(EVENT))
    assert "is not set" in told and KEY not in told
    assert web.received == []


def test_credentials_of_the_url_become_a_header_and_are_never_shown(web: WebServer) -> None:
    action = Webhook(web.url("/500/T0K3N?sig=abc", user="ann:hunt%40r@"))
    told = failure(lambda: action.run(EVENT))
    assert told == "the webhook answered 500 Internal Server Error"
    scheme, _, encoded = web.received[0].headers["Authorization"].partition(" ")
    assert (scheme, b64decode(encoded)) == ("Basic", b"ann:hunt@r")
    assert web.received[0].headers["Host"] == f"127.0.0.1:{web.port}"
    assert action.describe() == f"posts to http://127.0.0.1:{web.port}/…"


@pytest.mark.parametrize("code", [200, 201, 204])
def test_any_2xx_will_do(web: WebServer, code: int) -> None:
    Webhook(web.url(f"/{code}")).run(EVENT)


@pytest.mark.parametrize("code", [304, 400, 404, 503])
def test_any_other_answer_is_a_failure(web: WebServer, code: int) -> None:
    assert f"answered {code}" in failure(lambda: Webhook(web.url(f"/{code}")).run(EVENT))


def test_redirects_are_not_followed(web: WebServer) -> None:
    told = failure(lambda: Webhook(web.url("/redirect")).run(EVENT))
    assert "answered 307" in told and "not followed" in told
    assert [got.path for got in web.received] == ["/redirect"]


@pytest.mark.parametrize("manner", ["/silent", "/dripping"])
def test_the_whole_exchange_has_one_time_out_and_is_broken_off(web: WebServer, manner: str) -> None:
    told = failure(lambda: Webhook(web.url(manner), timeout_seconds=0.3).run(EVENT))
    # The wait for a server that says nothing at all may also end by itself, at the same moment.
    assert "gave up after 0.3 s" in told or "timed out" in told
    assert web.left_alone.wait(30)


def test_an_answer_that_is_not_http(web: WebServer) -> None:
    assert "sent no valid answer: BadStatusLine" in failure(lambda: Webhook(web.url("/nonsense")).run(EVENT))


def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://ann:hunter2@127.0.0.1:{taken.getsockname()[1]}/x"
        told = failure(lambda: Webhook(url).run(EVENT))
    assert "cannot reach" in told and "hunter2" not in told


@pytest.mark.parametrize(
    ("given", "told"),
    [
        *[
            ({"url": url}, "url of the webhook")
            for url in (
                "",
                "ftp://hunter2@host/x",
                "file:///etc/passwd",
                "https://",
                "host/path",
                "https://host:port/",
                "https://host/a b",
                "https://host/\n",
                "https://host/ü",
                "https://[::1",
                None,
            )
        ],
        ({"url": "https://h", "key_env": "hunter2 is secret"}, "environment variable"),
        ({"url": "https://h", "key_env": ""}, "environment variable"),
        ({"url": "https://h", "key_env": 3}, "environment variable"),
        ({"url": "https://h", "timeout_seconds": 0}, "timeout_seconds"),
    ],
)
def test_webhooks_are_checked_when_they_are_made(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Webhook(**given)
    assert told in str(caught.value) and "hunter2" not in str(caught.value)
