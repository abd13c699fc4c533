"""A lake that ages as fast as a test wants, and everything that is to be true of it after an expire."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pyarrow as pa

import headgate as hg
from headgate.storage.capabilities import Store
from headgate.storage.memory import MemoryStore
from headgate.system.host import SystemHost
from headgate.testing.inspector import Inspector

DAY = timedelta(days=1)


@dataclass
class Clock:
    """What time it is. Moves on by itself, by a moment for each look."""

    ahead: timedelta = timedelta(0)

    def pass_time(self, time: timedelta) -> None:
        self.ahead += time


class AgingHost(SystemHost):
    """The system, at another time."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def now(self) -> datetime:
        return super().now() + self._clock.ahead


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "n": pa.array([0] * len(ids), pa.int64())})


def content(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted((tuple(sorted(row.items())) for row in table.to_pylist()), key=repr)


@dataclass
class AgingLake:
    """A lake, and what each of its tables had at each version."""

    store: Store = field(default_factory=MemoryStore)
    divisor: int = 4
    clock: Clock = field(default_factory=Clock)
    truth: dict[int, dict[str, list[tuple[object, ...]]]] = field(default_factory=dict)
    lake: hg.Lake = field(init=False)

    def __post_init__(self) -> None:
        self.lake = hg.Lake.init(self.store, divisor=self.divisor, host=AgingHost(self.clock))

    def opened(self) -> hg.Lake:
        return hg.Lake.open(self.store, host=AgingHost(self.clock))

    def note(self) -> None:
        """Remembers what the tables have now, for this version and those before it that are not known."""
        version = self.lake.version
        found = {name: content(self.lake.table(name).read_arrow()) for name in self.lake.tables()}
        self.truth[version] = found

    def expire(self, *keep: str) -> hg.ExpireReport:
        report = self.opened().expire(keep)
        self.note()
        return report

    def require_sound(self) -> None:
        """Every kept version reads as it was, every other is refused, and nothing is missing."""
        lake = self.opened()
        kept = Inspector(lake).refresh().retention
        for version, tables in self.truth.items():
            for name, expected in tables.items():
                table = lake.table(name, version=version)
                if kept.keeps(version, self.divisor):
                    assert content(table.read_arrow()) == expected, (version, name)
                else:
                    with_error = refused(table)
                    assert f"version {version} has expired" in with_error.problem
        report = lake.fsck(deep=True)
        assert report.ok, report.damage

    def unreferenced(self) -> list[str]:
        """What `fsck` says of objects that no version needs."""
        report = self.opened().fsck(all_versions=True)
        return [one.problem for one in report.notes if one.kind == "files-unreferenced"]


def refused(table: hg.Table) -> hg.NotFoundError:
    try:
        table.read_arrow()
    except hg.NotFoundError as error:
        return error
    raise AssertionError(f"{table} could be read")
