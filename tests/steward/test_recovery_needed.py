"""Whether recovery has anything to do: a question that costs the same however long the log is."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
from headgate.hooks import CommitEvent, Hook, Python
from headgate.log.layout import RECOVERED, checkpoint_key, entry_key
from headgate.model.identifiers import Version
from headgate.storage.memory import MemoryStore
from headgate.system.host import SystemHost
from tests.cli.program import run
from tests.lake.test_budgets import counted_lake

ONCE = hg.RetryPolicy(attempts=1)


def filled(versions: int, divisor: int = 4, **settings: Any) -> tuple[MemoryStore, hg.Lake]:
    store = MemoryStore()
    lake = hg.Lake.init(store, strategy="conditional", divisor=divisor, **settings)
    for number in range(versions):
        lake.set_properties({"n": str(number)})
    return store, lake


def failing(event: CommitEvent) -> None:
    raise OSError("not today")


def test_nothing_is_needed_in_a_lake_that_is_whole() -> None:
    _, lake = filled(7)
    needed = lake.recovery_needed()
    assert not needed and needed.reasons == ()
    assert (needed.until, needed.entries, needed.hooks, needed.plans) == (7, (), (), ())


def test_what_is_needed_is_what_recovery_does() -> None:
    store, lake = filled(7)
    for version in (6, 7):
        store.delete(entry_key(Version(version)))
    store.delete(checkpoint_key(Version(4)))
    store.delete(RECOVERED)
    needed = lake.recovery_needed()
    assert needed and needed.entries == (6, 7) and needed.checkpoints == (4,)
    assert needed.reasons == (
        "versions without a control entry, whose writers died or are still working: 6, 7",
        "boundaries without a checkpoint: 4",
    )
    report = lake.recover()
    assert (report.entries, report.checkpoints) == (needed.entries, needed.checkpoints)
    assert not lake.recovery_needed()


def test_a_failed_hook_is_named_but_no_reason_for_a_recovery() -> None:
    _, lake = filled(1, hooks=[Hook("a", Python(failing), retry=ONCE)])
    needed = lake.recovery_needed()
    assert not needed and (needed.hooks, needed.failed_hooks) == ((), (1,))  # recovery would not try it again
    lake.recover()
    assert lake.recovery_needed() == needed
    lake.skip_hooks("a")
    assert lake.recovery_needed().failed_hooks == ()


def test_hooks_that_are_pending_are_a_reason_until_somebody_who_has_them_recovers() -> None:
    hook = Hook("a", Python(lambda event: None))
    store, _ = filled(2, hooks=[hook])
    store.delete(entry_key(Version(2)))
    stranger = hg.Lake.open(store)
    assert stranger.recover().entries == (2,)
    needed = stranger.recovery_needed()
    assert needed and needed.hooks == (2,) and needed.reasons == ("versions with hooks to run: 2",)
    lake = hg.Lake.open(store, hooks=[hook])
    assert lake.recover().hooks_done == ("2: a",)
    assert not lake.recovery_needed()


def test_a_hook_that_waits_for_a_failed_one_is_not_a_reason_where_that_is_known() -> None:
    hooks = [
        Hook("a", Python(failing), retry=ONCE),
        Hook("b", Python(lambda event: None), after=["a"]),
    ]
    store, lake = filled(1, hooks=hooks)
    assert not lake.recovery_needed() and lake.recovery_needed().failed_hooks == (1,)
    assert hg.Lake.open(store).recovery_needed().hooks == (1,)  # it does not know what `b` waits for


def test_a_plan_that_nobody_carries_out_is_a_reason() -> None:
    store = abandoned_plan()
    lake = hg.Lake.open(store, host=Later())
    (txid,) = lake.recovery_needed().plans
    assert lake.recovery_needed().reasons == (f"abandoned plans: {txid}",)
    assert not lake.recovery_needed(patience=timedelta(days=1))
    assert lake.recover().cancelled_plans == (txid,)
    assert not lake.recovery_needed()


def abandoned_plan() -> MemoryStore:
    """A lake whose only plan was scheduled an hour ago, if the clock of `Later` is right."""
    store, lake = filled(0)
    table = lake.create_table("a.b", "id BIGINT")
    table.append(pa.table({"id": [1]}))
    with lake.transaction() as tx:
        tx.plan("compaction", "a.b", [file.path for file in table.files()], ["/a/b"])
    return store


@pytest.mark.parametrize("versions", [3, 205])
@pytest.mark.parametrize("strategy", ["conditional", "rename", "filetracker"])
def test_the_question_costs_six_requests_however_long_the_log_is(versions: int, strategy: str) -> None:
    lake, tally = counted_lake(strategy)
    for number in range(versions):
        lake.set_properties({"n": str(number)})
    tally.reset()
    assert not lake.recovery_needed()
    assert dict(tally.counts()) == {"get": 3, "list": 3}


class Later(SystemHost):
    """A host whose clock is an hour ahead."""

    def now(self) -> datetime:
        return super().now() + timedelta(hours=1)


def test_a_boundary_makes_up_for_the_window_that_ends_there_if_it_is_old_enough() -> None:
    """Lazy recovery sees the window in progress, too: not only the ones before it."""
    store, _ = filled(2)
    store.delete(entry_key(Version(2)))
    lake = hg.Lake.open(store, host=Later())
    for number in range(2):
        lake.set_properties({"n": str(number)})
    entry = lake.control(2)
    assert lake.version == 4 and entry is not None and entry.recovered
    assert not lake.recovery_needed()
    assert json.loads(store.get(RECOVERED) or b"") == {"version": 4}


def test_a_boundary_leaves_a_young_version_of_its_window_to_its_writer() -> None:
    store, _ = filled(2)
    store.delete(entry_key(Version(2)))
    lake = hg.Lake.open(store)
    for number in range(2):
        lake.set_properties({"n": str(number)})
    assert lake.control(2) is None and lake.recovery_needed().entries == (2,)
    assert json.loads(store.get(RECOVERED) or b"") == {"version": 1}
    for number in range(4):
        lake.set_properties({"n": str(number)})
    assert lake.control(2) is not None and not lake.recovery_needed()


def test_the_command_says_what_recovery_would_do(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    lake = hg.Lake.init(place)
    lake.set_properties({"n": "1"})
    whole = run("recover", str(place), "--dry-run")
    assert (whole.exit_code, whole.output) == (0, "nothing to recover up to version 1\n")
    (place / entry_key(Version(1))).unlink()
    shown = run("recover", str(place), "--dry-run")
    assert shown.exit_code == 0
    assert "versions without a control entry, whose writers died or are still working: 1" in shown.output
    fields = json.loads(run("recover", str(place), "--dry-run", "--json").output)
    assert fields["needed"] is True and fields["entries"] == [1]
    assert fields["failed_hooks"] == [] and fields["until"] == 1
    assert lake.control(1) is None  # nothing was changed


def test_the_command_names_failed_hooks_and_what_to_do(tmp_path: Path) -> None:
    lake = hg.Lake.init(tmp_path / "lake", hooks=[Hook("a", Python(failing), retry=ONCE)])
    lake.set_properties({"n": "1"})
    assert run("recover", lake.place, "--dry-run").output.splitlines() == [
        "nothing to recover up to version 1",
        "versions with failed hooks (run `headgate hooks retry` or `headgate hooks skip`): 1",
    ]
