"""Every strategy holds its contract, on every store that can carry it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest
from obstore.store import MemoryStore as ObstoreMemory

from headgate.errors import UnsupportedError
from headgate.log.driver import Driver
from headgate.log.strategy import strategy_named
from headgate.storage.capabilities import Store
from headgate.storage.local import LocalStore
from headgate.storage.memory import MemoryStore
from headgate.storage.object import ObjectStore
from headgate.system.host import Host, SystemHost
from headgate.testing.contracts import StrategyContract, StrategyOn
from headgate.testing.intercept import without_atomic_operations

PATIENCE_SECONDS = 0.02


class HastyHost(SystemHost):
    """Never waits long: for stores whose requests take much less than that."""

    def sleep(self, seconds: float) -> None:
        super().sleep(min(seconds, PATIENCE_SECONDS))


class _Shipped(StrategyContract):
    name: ClassVar[str]
    ordered_listing: ClassVar[bool] = True
    host: ClassVar[Host] = HastyHost()

    @pytest.fixture
    def strategy_on(self) -> StrategyOn:
        return lambda store: strategy_named(
            self.name, Driver(store, self.host), ordered_listing=self.ordered_listing
        )


MakeStore = Callable[[Path], Store]
STORES: dict[str, MakeStore] = {
    "memory": lambda _: MemoryStore(),
    "local": lambda path: LocalStore(path / "lake"),
    "obstore": lambda _: ObjectStore(ObstoreMemory(), "memory://"),
}


class TestConditional(_Shipped):
    name = "conditional"

    @pytest.fixture(params=STORES)
    def store(self, request: pytest.FixtureRequest, tmp_path: Path) -> Store:
        return STORES[request.param](tmp_path)


class TestRename(_Shipped):
    name = "rename"

    @pytest.fixture(params=["memory", "local"])
    def store(self, request: pytest.FixtureRequest, tmp_path: Path) -> Store:
        return STORES[request.param](tmp_path)


class TestFileTracker(_Shipped):
    name = "filetracker"

    @pytest.fixture(params=STORES)
    def store(self, request: pytest.FixtureRequest, tmp_path: Path) -> Store:
        return STORES[request.param](tmp_path)


class TestFileTrackerAlone(_Shipped):
    """With nothing but put, get and list, and a listing that is not trusted to be in order."""

    name = "filetracker"
    ordered_listing = False

    @pytest.fixture(params=STORES)
    def store(self, request: pytest.FixtureRequest, tmp_path: Path) -> Store:
        return without_atomic_operations(STORES[request.param](tmp_path))


@pytest.mark.slow
class TestConditionalOnS3(_Shipped):
    name = "conditional"

    @pytest.fixture
    def store(self, s3_store: Store) -> Store:
        return s3_store


@pytest.mark.slow
class TestFileTrackerOnS3(_Shipped):
    name = "filetracker"
    host = SystemHost()

    @pytest.fixture
    def store(self, s3_store: Store) -> Store:
        return without_atomic_operations(s3_store)


@pytest.mark.parametrize("name", ["conditional", "rename"])
def test_a_store_that_cannot_carry_a_strategy_is_refused(name: str) -> None:
    store = without_atomic_operations(MemoryStore())
    with pytest.raises(UnsupportedError, match=name):
        strategy_named(name, Driver(store, SystemHost()), ordered_listing=True)


def test_object_storage_does_not_carry_rename() -> None:
    store = ObjectStore(ObstoreMemory(), "memory://")
    with pytest.raises(UnsupportedError, match="rename"):
        strategy_named("rename", Driver(store, SystemHost()), ordered_listing=True)
