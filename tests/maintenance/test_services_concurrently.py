"""One works on a lake, and another one does all of its work just before the k-th request of the first.

Whatever the two are: no version that is kept reads otherwise than before, nobody is told of damage that is
none, and every table is announced as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count

import pyarrow as pa
import pytest

import headgate as hg
from headgate.maintenance.clustering import Clusterer
from headgate.maintenance.compaction import Compactor
from headgate.steward.publishing import hint_key, version_of
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Put
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import intercepted
from tests.maintenance.aging import DAY, AgingHost, AgingLake, Clock, rows
from tests.maintenance.concurrently import Beside
from tests.steward.crashes import OneByOne

HOUR = timedelta(hours=1)
AT_ONCE = timedelta(0)
STRIDE = 9
"""Every so-manieth request is a moment at which the other one comes."""


class Surroundings(OneByOne, AgingHost):
    """Requests in an order that is the same each time, at any time that a test wants."""


class World:
    """A lake that has a past: tags, a table that was dropped, deletes, a compaction, an expire."""

    def __init__(self, aging: AgingLake) -> None:
        self.aging = aging
        self.host = Surroundings(aging.clock)

    def opened(self, before_request: Callable[[object], None] | None = None) -> hg.Lake:
        store = self.aging.store
        if before_request is not None:
            tell = before_request

            def between(request: object, proceed: Callable[[object], object]) -> object:
                tell(request)
                return proceed(request)

            store = intercepted(store, between)  # type: ignore[arg-type]
        return hg.Lake.open(store, host=self.host)

    def require_sound(self) -> None:
        self.aging.note()
        self.aging.require_sound()
        for name, ref in Inspector(self.opened()).refresh().tables.items():
            hint = self.aging.store.get(hint_key(ref.location))
            assert hint == str(version_of(ref)).encode(), (
                f"{name}: announced as {hint!r}, is {version_of(ref)}"
            )


@cache
def past() -> AgingLake:
    aging = AgingLake(divisor=3)
    aging.store._now = lambda: datetime.now(UTC) + aging.clock.ahead  # type: ignore[attr-defined]
    lake = aging.lake

    def step(work: Callable[[], object]) -> None:
        aging.clock.pass_time(HOUR)
        work()
        aging.note()

    step(lambda: lake.create_table("t.a", "id BIGINT, n BIGINT"))
    for number in range(3):
        step(lambda number=number: lake.table("t.a").append(rows(10 * number, 10 * number + 1)))  # type: ignore[misc]
    step(lambda: lake.table("t.a").delete("id = 1"))
    step(lambda: lake.create_table("t.d", "id BIGINT, n BIGINT"))
    step(lambda: lake.table("t.d").append(rows(7, 8)))
    step(lambda: lake.tag("x", 4))
    step(lambda: lake.drop_table("t.d"))
    step(lambda: lake.table("t.a").append(rows(50, 51)))
    step(lake.compact)
    step(lambda: lake.expire(["all:4h", "1:forever"]))
    for number in range(3):
        step(lambda number=number: lake.table("t.a").append(rows(60 + number)))  # type: ignore[misc]
    sleeping = lake.transaction()
    sleeping.table("t.a").append(rows(99))
    sleeping._others.presence.fall_silent()
    aging.clock.pass_time(2 * DAY)
    return aging


def world() -> World:
    """A copy of the same past each time."""
    told = past()
    clock = Clock(told.clock.ahead)
    store = MemoryStore(now=lambda: datetime.now(UTC) + clock.ahead)
    assert isinstance(told.store, MemoryStore)
    store._objects, store._keys = dict(told.store._objects), list(told.store._keys)
    store._times = dict(told.store._times)
    aging = copy.copy(told)
    aging.store, aging.clock, aging.truth = store, clock, dict(told.truth)
    aging.lake = hg.Lake.open(store, host=Surroundings(clock))
    return World(aging)


def append(lake: hg.Lake) -> None:
    lake.table("t.a").append(rows(1000))


def delete(lake: hg.Lake) -> None:
    lake.table("t.a").delete("id = 60")


def compact(lake: hg.Lake) -> None:
    lake.compact(patience=AT_ONCE)


def cluster(lake: hg.Lake) -> None:
    lake.table("t.a").cluster(None, ["id"])


def expire(lake: hg.Lake) -> None:
    lake.expire(["all:1h", "2:forever"])


def vacuum(lake: hg.Lake) -> None:
    lake.vacuum(older_than=HOUR)


def recover(lake: hg.Lake) -> None:
    lake.recover(patience=AT_ONCE)


def upkeep(lake: hg.Lake) -> None:
    append(lake)
    compact(lake)
    expire(lake)
    vacuum(lake)


def recreate(lake: hg.Lake) -> None:
    """A table at the place of one that was dropped."""
    if "t.d" not in lake.tables():
        lake.create_table("t.d", "id BIGINT, n BIGINT").append(rows(5))


def rename(lake: hg.Lake) -> None:
    if "t.z" not in lake.tables():
        lake.rename_table("t.a", "t.z")
        lake.table("t.z").append(rows(77))


WORKERS = (append, delete, compact, cluster, expire, vacuum, recover)
OTHERS = (append, delete, compact, expire, vacuum, upkeep, recreate, rename)


@pytest.mark.parametrize("other", OTHERS, ids=lambda work: work.__name__)
@pytest.mark.parametrize("worker", WORKERS, ids=lambda work: work.__name__)
def test_two_at_once(worker: Callable[[hg.Lake], None], other: Callable[[hg.Lake], None]) -> None:
    for moment in count(1, STRIDE):
        here = world()
        asked, came = 0, False

        def before(_: object, here: World = here, moment: int = moment) -> None:
            nonlocal asked, came
            asked += 1
            if asked == moment and not came:
                came = True
                other(here.opened())

        lake = here.opened(before)
        asked, came = 0, False
        with suppress(hg.ConflictError, hg.NotFoundError, hg.AlreadyExistsError):
            worker(lake)  # or it is refused in words, with nothing changed
        if not came:
            break
        here.require_sound()


def test_a_plan_that_was_completed_is_not_cancelled_by_a_recovery() -> None:
    """Another thread of the same handle completes it after the recovery has found it to be dead."""
    here = world()

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    dying = Compactor(Inspector(here.opened()).handle, rewriter=die)  # type: ignore[arg-type]
    dying._give_up = lambda *_: ""  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        dying.run()
    (plan,) = Inspector(here.opened()).refresh().plans
    here.aging.clock.pass_time(HOUR)
    came = False

    def before(request: object) -> None:
        nonlocal came
        if not came and "timeline" in str(getattr(request, "prefix", "")):
            came = True
            lake.compact(patience=AT_ONCE)

    lake = here.opened(before)
    report = lake.recover(patience=AT_ONCE)
    assert came
    assert report.cancelled_plans == ()
    assert plan.text not in {txid for entry in lake.log() for txid in entry.cancels}


def test_a_slow_announcement_of_a_table_that_was_renamed() -> None:
    """The hint belongs to a place, whatever the table there is called by now."""
    here = world()
    came = False

    def before(request: object) -> None:
        nonlocal came
        if isinstance(request, Put) and request.key.endswith("version-hint.text") and not came:
            came = True
            rename(here.opened())

    append(here.opened(before))
    assert came
    here.require_sound()


@pytest.mark.parametrize("work", [append, delete, compact, cluster, expire, vacuum])
def test_a_handle_that_was_idle_while_versions_expired(work: Callable[[hg.Lake], None]) -> None:
    here = world()
    idle = here.opened()
    idle.table("t.a").read_arrow()
    for _ in range(3):
        append(here.opened())
        here.aging.clock.pass_time(3 * DAY)
    upkeep(here.opened())
    work(idle)
    here.require_sound()


def test_a_clustering_that_slept_while_its_plan_was_cancelled_and_versions_expired() -> None:
    """It is told to begin again, not that the lake is damaged."""
    clock, store = Clock(), MemoryStore()

    def opened() -> hg.Lake:
        return hg.Lake.open(store, host=Surroundings(clock))

    lake = hg.Lake.init(store, divisor=2, host=Surroundings(clock))
    table = lake.create_table("t.t", "id BIGINT", properties={"clustering.allow_updates": "true"})
    for number in range(5):
        table.append(pa.table({"id": [2 * number, 2 * number + 1]}))

    def asleep() -> None:
        clock.pass_time(timedelta(days=2))
        opened().table("t.t").set_properties({"k": "v"})
        opened().table("t.t").delete("id = 1")
        for number in range(3):
            clock.pass_time(timedelta(hours=2))
            opened().table("t.t").append(pa.table({"id": [100 + number]}))
        opened().expire(["all:1h"])

    work = iter([asleep])
    beside = Beside(lambda: next(work, lambda: None)())
    with pytest.raises(hg.ConflictError, match="began on version 7, but version 13 has expired"):
        Clusterer(Inspector(opened()).handle, "t.t", ("cluster",), rewriter=beside).run(["id"], False, None)
    assert opened().fsck(deep=True).ok
    assert opened().table("t.t").read_arrow().num_rows == 12
