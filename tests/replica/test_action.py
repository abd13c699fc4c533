"""The action `replicate`: a hook that lets a replica follow every commit."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import headgate as hg
from headgate.core.conflict.retry import RetryPolicy
from headgate.errors import InvalidInputError
from headgate.log.layout import REPLICA
from headgate.steward.hooks.hook import Hook
from headgate.steward.replica.action import Replicate
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Create, Put
from headgate.testing.contracts import race
from headgate.testing.faulty import Fault, faulty, refuse
from headgate.testing.inspector import Inspector
from tests.replica.shop import ORDERS, assert_complete, assert_same, fill, rows

ONCE = RetryPolicy(attempts=1)


def test_a_replica_follows_every_commit(tmp_path: Path) -> None:
    lake = hg.Lake.init(tmp_path / "lake", divisor=4)
    lake.add_hook(Hook("replica", Replicate(tmp_path / "replica")))
    fill(lake)
    replica = hg.Lake.open(tmp_path / "replica")
    assert_same(lake, replica)
    assert_complete(replica)
    assert lake.open_hooks() == () and lake.hooks[0].action.describe() == f"replicate to {tmp_path}/replica"


def test_writers_with_the_same_hook(tmp_path: Path) -> None:
    lake = hg.Lake.init(tmp_path / "lake", divisor=4)
    lake.create_table(ORDERS, "id BIGINT, day INT, name STRING")
    shared = Hook("replica", Replicate(tmp_path / "replica"))

    def write(number: int, hook: Hook) -> None:
        own = hg.Lake.open(tmp_path / "lake", hooks=[hook])
        for at in range(5):
            assert own.table(ORDERS).append(rows(10 * number + at)).hook_failures == ()

    race([partial(write, 1, shared), partial(write, 2, shared)])
    race([partial(write, n, Hook("replica", Replicate(tmp_path / "replica"))) for n in (3, 4)])
    assert_same(lake, hg.Lake.open(tmp_path / "replica"))


def test_a_target_that_fails_fails_no_commit_and_is_made_up_for() -> None:
    lake, inner = hg.Lake.init(MemoryStore("source")), MemoryStore("replica")
    store, schedule = faulty(inner)
    action = Replicate(store, source=Inspector(lake).store)
    lake.add_hook(Hook("replica", action, retry=ONCE))
    lake.set_properties({"a": "1"})
    schedule.add(Fault(lambda request: isinstance(request, Put | Create), refuse, times=None))
    failed = lake.set_properties({"a": "2"})
    assert failed.version == 2 and "stays complete at version 1" in failed.hook_failures[0]
    assert [(hook.version, hook.run.name) for hook in lake.open_hooks()] == [(2, "replica")]
    schedule.clear()
    # The next commit brings it up to date; what is left is only to say so.
    lake.set_properties({"a": "3"})
    assert_same(lake, hg.Lake.open(inner))
    assert lake.run_hooks(retry=True).done == ("2: replica",)


def test_a_promoted_replica_ends_the_following() -> None:
    lake, store = hg.Lake.init(MemoryStore("source")), MemoryStore("replica")
    lake.add_hook(Hook("replica", Replicate(store, source=Inspector(lake).store), retry=ONCE))
    lake.set_properties({"a": "1"})
    promoted = hg.Lake.open(store)
    promoted.promote()
    assert REPLICA in lake.set_properties({"a": "2"}).hook_failures[0]
    assert promoted.version == 1


def test_a_source_that_is_another_lake() -> None:
    lake, other = hg.Lake.init(MemoryStore("source")), MemoryStore("other")
    hg.Lake.init(other)
    action = Replicate(MemoryStore("replica"), source=other)
    lake.add_hook(Hook("replica", action, retry=ONCE))
    assert "but the lake at memory://other is" in lake.set_properties({"a": "1"}).hook_failures[0]


def test_a_target_that_is_no_place() -> None:
    with pytest.raises(InvalidInputError):
        Replicate("")
    keys = {"access_key_id": "AKIAIOSFODNN7EXAMPLE", "secret_access_key": "x"}
    assert Replicate("s3://bucket/lake", options=keys).describe() == "replicate to s3://bucket/lake"
