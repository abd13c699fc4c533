"""From a URL to a store: what is understood, what is refused, and what the environment adds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.errors import InvalidInputError, UnsupportedError
from headgate.storage.local import LocalStore
from headgate.storage.location import CLIENT_OPTIONS, SCHEMES, hadoop_place, open_store
from headgate.storage.memory import MemoryStore
from headgate.storage.object import ObjectStore
from tests.storage.scripted_server import Reply, ScriptedServer

KEYS = {"access_key_id": "id-of-options", "secret_access_key": "secret", "region": "us-east-1"}


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_")):
            monkeypatch.delenv(name)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(Reply(200, b"data")).running() as running:
        yield running


# Paths.


def test_a_path_is_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for place in (tmp_path / "lake", str(tmp_path / "lake"), f"file://{tmp_path}/lake", "lake", "./lake"):
        store = open_store(place)
        assert isinstance(store, LocalStore)
        assert store.describe() == str(tmp_path / "lake")


def test_opening_touches_nothing(tmp_path: Path) -> None:
    open_store(tmp_path / "lake")
    assert list(tmp_path.iterdir()) == []


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("lake")
    monkeypatch.chdir("/")
    store.put("key", b"")
    assert (tmp_path / "lake" / "key").exists()


def test_the_home_directory_has_its_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_store("~/lake").describe() == str(tmp_path / "lake")


def test_a_file_url_is_decoded(tmp_path: Path) -> None:
    assert open_store((tmp_path / "a b#c%").as_uri()).describe() == str(tmp_path / "a b#c%")
    assert open_store(f"FILE://localhost{tmp_path}/lake").describe() == str(tmp_path / "lake")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "empty"),
        ("file://", "empty"),
        ("file://data/lake", "names the host 'data'"),
        ("~nobody-of-this-name/lake", "~nobody-of-this-name"),
        ("null\0byte", "not a path"),
        ("file:///null%00byte", "not a path"),
        ("lake\n", "control characters"),
        ("s3://bucket/la\nke", "control characters"),
        ("file:///tmp/a\tb", "control characters"),
        ("memory://\x1b[31m", "control characters"),
        ("s3://bucket/\x85", "control characters"),
        ("lake-\udcff", "not valid Unicode"),
        ("s3:/bucket/lake", "it may be a URL or a path"),
        ("file:/lake", "it may be a URL or a path"),
    ],
)
def test_unclear_paths_are_refused(url: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        open_store(url)


def test_a_path_is_not_decoded() -> None:
    assert open_store("/lake?a#b%20c").describe() == "/lake?a#b%20c"


def test_the_option_of_directories_is_fsync(tmp_path: Path) -> None:
    for value in ("true", "false", "True"):
        open_store(tmp_path, {"fsync": value})
    with pytest.raises(InvalidInputError, match="fsync cannot be 'maybe'"):
        open_store(tmp_path, {"fsync": "maybe"})
    with pytest.raises(InvalidInputError, match="unknown options for a local directory: region"):
        open_store(tmp_path, {"region": "secret-value"})


# Memory.


def test_a_name_in_memory_is_always_the_same_store() -> None:
    first = open_store("memory://some-name-of-this-test")
    assert isinstance(first, MemoryStore)
    assert open_store("memory://some-name-of-this-test/") is first
    assert open_store("memory://another-name-of-this-test") is not first
    with pytest.raises(InvalidInputError, match="no options"):
        open_store("memory://x", {"fsync": "true"})


# Schemes.


def test_an_unknown_scheme_names_the_known_ones() -> None:
    with pytest.raises(UnsupportedError, match="the scheme ftp:// is not supported") as raised:
        open_store("ftp://user:password@host/lake")
    assert all(f"{scheme}://" in raised.value.next_step for scheme in (*SCHEMES, "hdfs"))
    assert "password" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("s3://bucket/lake", KEYS),
        ("s3://bucket", KEYS),
        ("S3://bucket/lake", KEYS),
        ("s3a://bucket/lake", KEYS),
        ("gs://bucket/lake", {"skip_signature": "true"}),
        ("az://container/lake", {"account_name": "account", "account_key": "a2V5"}),
        ("abfs://container/lake", {"account_name": "account", "account_key": "a2V5"}),
        ("abfss://container@account.dfs.core.windows.net/lake", {"account_key": "a2V5"}),
    ],
)
def test_object_storage_is_opened_without_a_request(url: str, options: dict[str, str]) -> None:
    for written in (url, f"{url}/"):
        store = open_store(written, options)
        assert isinstance(store, ObjectStore)
        assert store.describe() == url


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://", "names no bucket"),
        ("s3:///lake", "names no bucket"),
        ("gs:///", "names no bucket"),
        ("s3://key:secret@bucket/lake", "not a plain location"),
        ("s3://key@bucket/lake", "not a plain location"),
        ("s3://bucket:9000/lake", "not a plain location"),
        ("s3://bucket/../other", "not a plain location"),
        ("s3://bucket/a/%2e%2e/other", "not a plain location"),
        ("s3://bucket/a//b", "empty path segment"),
        ("s3://bucket/lake?versionId=1", "after '\\?' or '#'"),
        ("s3://bucket/lake#1", "after '\\?' or '#'"),
        ("az://container/lake", "Account must be specified"),
    ],
)
def test_unclear_places_are_refused(url: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said) as raised:
        open_store(url)
    assert "secret" not in str(raised.value)


# Options.


def request_of(server: ScriptedServer, url: str, options: dict[str, str]) -> tuple[str, str]:
    """The path and the credentials that a read uses."""
    assert open_store(url, options).get("key") == b"data"
    seen = server.seen[-1]
    return seen.path, seen.headers["authorization"].partition("Credential=")[2].partition(",")[0]


@pytest.mark.parametrize(
    "name", ["endpoint", "endpoint_url", "aws_endpoint", "aws_endpoint_url", "AWS_ENDPOINT_URL", "Endpoint"]
)
def test_a_plain_http_endpoint_is_taken_from_options(server: ScriptedServer, name: str) -> None:
    path, credentials = request_of(server, "s3://bucket/a/lake", {name: server.endpoint, **KEYS})
    assert path == "/bucket/a/lake/key"
    assert credentials.startswith("id-of-options/")


def test_encoded_characters_in_the_place_are_decoded(server: ScriptedServer) -> None:
    path, _ = request_of(server, "s3://bucket/a%20b%23/lake", {"endpoint": server.endpoint, **KEYS})
    assert path == "/bucket/a%20b%23/lake/key"


@pytest.mark.parametrize("name", sorted(CLIENT_OPTIONS - {"root_certificate", "proxy_ca_certificate"}))
def test_options_of_the_client_are_known(name: str) -> None:
    values = {"allow_http": "true", "allow_invalid_certificates": "false", "pool_max_idle_per_host": "3"}
    value = values.get(name, "5s" if name.endswith("timeout") else "http://127.0.0.1:1")
    for written in (name, f"aws_{name}", name.upper()):
        open_store("s3://bucket/lake", {written: value, **KEYS})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"no_such_option": "secret-value"}, "no_such_option"),
        ({"timeout": "soon"}, "Duration"),
        ({"allow_http": "maybe"}, "boolean"),
        ({"skip_signature": "maybe"}, "boolean"),
        ({"endpoint": "localhost:9000"}, "endpoint 'localhost:9000' is not a URL"),
        ({"endpoint": "ftp://host"}, "is not a URL"),
        ({"endpoint": "http://"}, "is not a URL"),
        ({"endpoint": "http://with space"}, "is not a URL"),
    ],
)
def test_bad_options_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said) as raised:
        open_store("s3://bucket/lake", {**KEYS, **options})
    assert "secret" not in str(raised.value)


def test_an_option_that_is_not_text_is_refused() -> None:
    with pytest.raises(InvalidInputError):
        open_store("s3://bucket/lake", {**KEYS, "session_token": 7})  # type: ignore[dict-item]


# The environment.


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"])
def test_credentials_and_endpoint_come_from_the_environment(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id-of-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token-of-environment")
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    _, credentials = request_of(server, "s3://bucket/lake", {})
    user, _, region, service, _ = credentials.split("/")
    assert (user, region, service) == ("id-of-environment", "eu-west-3", "s3")
    assert server.seen[-1].headers["x-amz-security-token"] == "token-of-environment"


@pytest.mark.parametrize("name", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_the_region_comes_from_the_environment(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "eu-north-1")
    options = {"endpoint": server.endpoint, "access_key_id": "id", "secret_access_key": "secret"}
    assert "/eu-north-1/" in request_of(server, "s3://bucket/lake", options)[1]


def test_the_more_special_variable_wins(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:1")
    assert request_of(server, "s3://bucket/lake", KEYS)[0] == "/bucket/lake/key"


def test_options_win_over_the_environment(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id-of-environment")
    _, credentials = request_of(server, "s3://bucket/lake", {"endpoint": server.endpoint, **KEYS})
    assert credentials.startswith("id-of-options/")


def test_a_bad_endpoint_in_the_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "minio:9000")
    with pytest.raises(InvalidInputError, match="minio:9000"):
        open_store("s3://bucket/lake", KEYS)


@pytest.mark.parametrize("url", ["lake", "memory://typed", "s3://bucket/lake"])
@pytest.mark.parametrize("options", [{"fsync": False}, {"fsync": None}, {5: "x"}, {"timeout": 3}, ["fsync"]])
def test_options_are_texts(url: str, options: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError, match="option"):
        open_store(url, options)
    assert list(tmp_path.iterdir()) == []


def test_the_value_of_an_option_is_not_in_the_error() -> None:
    options: Any = {"secret_access_key": b"hunter2"}
    with pytest.raises(InvalidInputError) as caught:
        open_store("s3://bucket/lake", options)
    assert "hunter2" not in str(caught.value)


def test_a_relative_path_needs_a_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(InvalidInputError, match="working directory is gone"):
        open_store("lake")
    assert open_store(str(tmp_path / "lake")).get("a") is None


# Hadoop.


def test_places_of_hadoop_are_for_its_client() -> None:
    assert hadoop_place("hdfs://namenode:8020/lake") == "hdfs://namenode:8020/lake"
    assert hadoop_place("HDFS:///lake") == "HDFS:///lake"
    for other in ("./hdfs", "s3://bucket/hdfs", Path("/hdfs:/lake")):
        assert hadoop_place(other) is None


def test_places_of_hadoop_have_no_options() -> None:
    with pytest.raises(InvalidInputError, match="no options, but got user"):
        hadoop_place("hdfs://namenode:8020/lake", {"user": "me"})


def test_a_store_alone_does_not_reach_hadoop() -> None:
    with pytest.raises(UnsupportedError, match="through a Spark session") as raised:
        open_store("hdfs://namenode:8020/lake")
    assert "Lake.open" in raised.value.next_step
