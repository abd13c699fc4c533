"""Hadoop file systems as a store, on `file:` URLs: what needs no HDFS."""

from __future__ import annotations

import pickle
import re
import time
import zipfile
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pyspark
import pytest
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.sql import SparkSession

import headgate as hg
from headgate.errors import (
    HeadgateError,
    InvalidInputError,
    NoAnswerError,
    StorageRefusedError,
    UnsupportedError,
)
from headgate.log.driver import Driver
from headgate.log.strategy import strategy_named
from headgate.spark.store.hadoop import HadoopStore, open_hadoop_store
from headgate.spark.store.hadoop_errors import ERRORS, storage_error
from headgate.storage.capabilities import PutIfAbsent, ReadTail, RenameNoReplace, Store
from headgate.testing.contracts import (
    ListTimesContract,
    PutInPartsContract,
    ReadPartsContract,
    RenameNoReplaceContract,
    StoreContract,
    StrategyContract,
    StrategyOn,
    race,
)
from tests.contract.test_strategies import HastyHost


@pytest.fixture
def store(session: SparkSession, tmp_path: Path) -> HadoopStore:
    return HadoopStore(session, f"file://{tmp_path}/made by the store")


class TestContract(
    StoreContract, ListTimesContract, ReadPartsContract, PutInPartsContract, RenameNoReplaceContract
):
    racers: ClassVar[int] = 4

    @pytest.fixture
    def store(self, session: SparkSession, tmp_path: Path) -> Store:
        return HadoopStore(session, f"file://{tmp_path}/made by the store")

    def test_it_promises_just_this(self, store: Store) -> None:
        assert isinstance(store, Store) and isinstance(store, RenameNoReplace) and isinstance(store, ReadTail)
        assert not isinstance(store, PutIfAbsent)


class TestRename(StrategyContract):
    racers: ClassVar[int] = 4
    versions: ClassVar[int] = 5

    @pytest.fixture
    def store(self, session: SparkSession, tmp_path: Path) -> Store:
        return HadoopStore(session, f"file://{tmp_path}/lake")

    @pytest.fixture
    def strategy_on(self) -> StrategyOn:
        return lambda store: strategy_named("rename", Driver(store, HastyHost()), ordered_listing=True)


# Exceptions of Java.

JARS = Path(pyspark.__file__).parent / "jars"
FILE_SYSTEMS = re.compile(
    r"org/apache/hadoop/(fs|ipc|net|security|hdfs|hdfs/protocol|hdfs/server/namenode)/(\w+Exception|FSError)\.class"
)
OF_OTHERS = {
    # Of mechanisms that the store does not use: encryption zones, watching the NameNode.
    "UnknownCipherSuiteException",
    "UnknownCryptoProtocolVersionException",
}


def test_every_exception_of_file_systems_has_a_meaning() -> None:
    (jar,) = JARS.glob("hadoop-client-api-*.jar")
    found = (FILE_SYSTEMS.fullmatch(name) for name in zipfile.ZipFile(jar).namelist())
    known = {match[2] for match in found if match}
    assert known - set(ERRORS) - OF_OTHERS == set()
    assert len(known) > 40


def raised_by(session: SparkSession, name: str, message: str = "text\nand more") -> Py4JJavaError:
    """What arrives here when the JVM throws an exception of this class."""
    jvm: Any = session.sparkContext._jvm
    # A future that has failed throws what it was given, in its own wrapping.
    future = jvm.java.util.concurrent.CompletableFuture()
    future.completeExceptionally(getattr(jvm, name)(message))
    with pytest.raises(Py4JJavaError) as caught:
        future.get()
    error = caught.value
    error.java_exception = error.java_exception.getCause()
    return error


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("org.apache.hadoop.security.AccessControlException", StorageRefusedError),
        ("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", StorageRefusedError),
        ("org.apache.hadoop.fs.ParentNotDirectoryException", StorageRefusedError),
        ("org.apache.hadoop.fs.UnsupportedFileSystemException", UnsupportedError),
        ("org.apache.hadoop.net.ConnectTimeoutException", NoAnswerError),
        ("java.net.UnknownHostException", StorageRefusedError),
        ("java.util.zip.ZipException", NoAnswerError),
        ("java.lang.IllegalStateException", NoAnswerError),
        ("java.lang.OutOfMemoryError", NoAnswerError),
    ],
)
def test_exceptions_become_errors_of_our_tree(
    session: SparkSession, name: str, kind: type[HeadgateError]
) -> None:
    error = storage_error("cannot do it", raised_by(session, name))
    assert type(error) is kind
    assert str(error).startswith(f"cannot do it: {name.rpartition('.')[2]}: text")
    assert "and more" not in str(error)
    assert error.next_step


def test_a_full_disk_is_a_refusal(session: SparkSession) -> None:
    error = storage_error("cannot", raised_by(session, "java.io.IOException", "No space left on device"))
    assert isinstance(error, StorageRefusedError)
    assert "space" in error.next_step


def test_a_session_that_is_gone_gives_no_answer() -> None:
    error = storage_error("cannot do it", Py4JNetworkError("Answer from Java side is empty"))
    assert isinstance(error, NoAnswerError)


# Places.


def test_a_scheme_without_a_connector(session: SparkSession) -> None:
    with pytest.raises(UnsupportedError, match="cannot reach o3fs://") as raised:
        open_hadoop_store("o3fs://bucket.volume/lake")
    assert "connector" in raised.value.next_step


@pytest.mark.parametrize(
    "url", ["hdfs://host:1", "hdfs://host:1/", "hdfs://host:1/a/../b", "hdfs://host:1/./b"]
)
def test_places_that_are_not_plain(session: SparkSession, url: str) -> None:
    with pytest.raises(InvalidInputError):
        open_hadoop_store(url)


def test_options_belong_to_the_session(session: SparkSession) -> None:
    with pytest.raises(InvalidInputError, match="no options") as raised:
        hg.Lake.open("hdfs://host:1/lake", options={"user": "me"})
    assert "spark.hadoop" in raised.value.next_step


def test_a_closed_port_fails_soon(session: SparkSession) -> None:
    started = time.monotonic()
    with pytest.raises(NoAnswerError, match="ConnectException"):
        hg.Lake.open("hdfs://127.0.0.1:1/lake")
    assert time.monotonic() - started < 60


def test_the_store_stays_with_the_driver(store: HadoopStore) -> None:
    with pytest.raises(UnsupportedError, match="not its Python workers"):
        pickle.dumps(store)


# Lakes.


def test_a_lake_by_rename(session: SparkSession, store: HadoopStore) -> None:
    lake = hg.Lake.init(store)
    assert lake.strategy == "rename"
    assert lake.doctor().safe
    clients = [hg.Lake.open(HadoopStore(session, store.uri())) for _ in range(3)]

    def commit_some(number: int) -> list[int]:
        return [clients[number].set_properties({f"{number}-{i}": "1"}).version for i in range(4)]

    versions = race([partial(commit_some, number) for number in range(3)])
    assert sorted(version for client in versions for version in client) == list(range(1, 13))
    assert lake.version == 12


def test_a_large_directory_is_one_text(session: SparkSession, tmp_path: Path) -> None:
    """Not one round trip for each name: those of ten thousand names would take seconds."""
    for number in range(10_000):
        (tmp_path / f"{number:05}").touch()
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "name; isDirectory=true; , |").touch()
    store = HadoopStore(session, f"file://{tmp_path}")
    assert len(store.list_page("").keys) == 10_001
    started = time.monotonic()
    keys = store.list_page("").keys
    assert time.monotonic() - started < 3
    assert keys[-1] == "below/name; isDirectory=true; , |"
