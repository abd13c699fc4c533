"""Every store holds the contract of what it promises."""

from __future__ import annotations

from pathlib import Path

import pytest
from obstore.store import MemoryStore as ObstoreMemory

from headgate.storage.capabilities import PutIfAbsent, RenameNoReplace, Store
from headgate.storage.local import LocalStore
from headgate.storage.memory import MemoryStore
from headgate.storage.object import ObjectStore
from headgate.testing.contracts import (
    ListSizesContract,
    ListTimesContract,
    PutIfAbsentContract,
    PutInPartsContract,
    ReadPartsContract,
    RenameNoReplaceContract,
    StoreContract,
)
from headgate.testing.faulty import Fault, SplitListing, faulty
from headgate.testing.intercept import intercepted, without_atomic_operations


class TestMemory(
    StoreContract, ListSizesContract, ListTimesContract, PutIfAbsentContract, RenameNoReplaceContract
):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()


class TestLocal(
    StoreContract,
    ListSizesContract,
    ListTimesContract,
    ReadPartsContract,
    PutInPartsContract,
    PutIfAbsentContract,
    RenameNoReplaceContract,
):
    @pytest.fixture(params=[True, False], ids=["fsync", "no-fsync"])
    def store(self, request: pytest.FixtureRequest, tmp_path: Path) -> Store:
        return LocalStore(tmp_path / "made by the store", fsync=request.param)


class TestIntercepted(
    StoreContract, ListSizesContract, ListTimesContract, PutIfAbsentContract, RenameNoReplaceContract
):
    @pytest.fixture
    def store(self) -> Store:
        return intercepted(MemoryStore(), lambda request, proceed: proceed(request))


class TestListedInPages(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        store, _ = faulty(MemoryStore(), Fault(lambda _: True, SplitListing(3), times=None))
        return store


class TestWithoutAtomicOperations(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return without_atomic_operations(MemoryStore())

    def test_it_promises_nothing_more(self, store: Store) -> None:
        assert not isinstance(store, PutIfAbsent | RenameNoReplace)


class TestObstoreInMemory(
    StoreContract,
    ListSizesContract,
    ListTimesContract,
    ReadPartsContract,
    PutInPartsContract,
    PutIfAbsentContract,
):
    """Our side of object storage, without a network."""

    @pytest.fixture
    def store(self) -> Store:
        return ObjectStore(ObstoreMemory(), "memory://", keys_per_page=7)

    def test_it_does_not_promise_to_rename(self, store: Store) -> None:
        assert not isinstance(store, RenameNoReplace)


@pytest.mark.slow
class TestS3(
    StoreContract,
    ListSizesContract,
    ListTimesContract,
    ReadPartsContract,
    PutInPartsContract,
    PutIfAbsentContract,
):
    @pytest.fixture
    def store(self, s3_store: Store) -> Store:
        return s3_store
