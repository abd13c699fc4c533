"""All that is public with hostile arguments: only errors of the tree, and rejected calls change nothing."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
from headgate.errors import HeadgateError, InternalError
from headgate.lake.lake_view import LakeView
from headgate.lake.table import Table
from headgate.storage.memory import MemoryStore
from headgate.testing.inspector import Inspector
from headgate.transaction.merge_builder import Merge
from headgate.transaction.table_writer import TableWriter
from headgate.transaction.transaction import Transaction
from tests.examples import examples
from tests.fuzz.hostile import Call, hostile_call, public_methods

ROUNDS = 8
SEED = 2026
OF_OUR_OWN: Mapping[type, frozenset[str]] = {Transaction: frozenset({"after_fork"})}
"""What the parts of Headgate say to each other. It has no page in the reference."""
STARTS_SPARK = frozenset({"session"})
ENDS = frozenset({"commit", "abort"})
GIVEN = frozenset({"Action", "CommitEvent"})
"""Of hooks: what callers write themselves, and what they are given."""

GOOD: Mapping[str, Callable[[], Any]] = {
    "name": lambda: "db.t",
    "table": lambda: "db.t",
    "to": lambda: "db.other",
    "where": lambda: "id = 1",
    "on": lambda: "t.id = s.id",
    "rows": lambda: pa.table({"id": [1, 2], "name": ["x", "y"]}),
    "source": lambda: pa.table({"id": [1, 2], "name": ["x", "y"]}),
    "keys": lambda: ["id"],
    "values": lambda: {"name": "'z'"},
    "properties": lambda: {"a": "b"},
    "schema": lambda: "id BIGINT",
    "terms": lambda: ["id"],
    "term": lambda: "bucket(4, id)",
    "type": lambda: "INT",
    "sql": lambda: "SELECT 1",
    "query": lambda: "SELECT 1",
    "directory": lambda: ".",
    "format": lambda: "json",
    "strategy": lambda: "conditional",
    "txid": lambda: "0" * 32,
    "since": lambda: 1,
    "version": lambda: 1,
    "doc": lambda: "text",
    "target": lambda: "replica",
    "by": lambda: ["id"],
    "spark": lambda: None,
}


def new_lake() -> hg.Lake:
    lake = hg.Lake.init(MemoryStore())
    table = lake.create_table("db.t", "id BIGINT, name STRING")
    table.append(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}))
    lake.tag("eom")
    return lake


@contextlib.contextmanager
def _transaction(lake: hg.Lake) -> Any:
    tx = lake.transaction()
    try:
        yield tx
    finally:
        with contextlib.suppress(HeadgateError):
            tx.abort()


@contextlib.contextmanager
def _owner(kind: type, lake: hg.Lake) -> Any:
    """Something of the kind, and what a caller does next with what its methods return."""
    table = lake.table("db.t")
    if kind is Merge:
        yield table.merge(GOOD["source"](), on="t.id = s.id"), _commit_merge
    elif kind in (Transaction, TableWriter):
        with _transaction(lake) as tx:
            yield tx if kind is Transaction else tx.table("db.t"), lambda _: tx.commit()
    else:
        yield {hg.Lake: lake, Table: table, LakeView: lake.at()}[kind], _nothing


def _commit_merge(done: Any) -> None:
    if isinstance(done, Merge):
        done.commit()


def _nothing(_: Any) -> None: ...


def attempt(call: Call, owner: Any, then: Callable[[Any], object]) -> bool:
    """Whether the call was accepted. Everything else than an error of the tree is a failure."""
    try:
        then(call.of(owner))
    except InternalError as error:
        pytest.fail(f"{call}: {error!r}")
    except HeadgateError:
        return False
    except Exception as error:
        raise AssertionError(f"{call}: {type(error).__name__}: {error}") from error
    return True


def require_sound(lake: hg.Lake, call: Call) -> None:
    """Whatever was accepted has left a lake that is whole, and can be read."""
    after = hg.Lake.open(lake._handle.driver.store)
    assert after.fsck(deep=True).damage == (), str(call)
    for table in map(after.table, after.tables()):
        if table.kind == "table":
            table.read_arrow()


OWNERS = (hg.Lake, Table, LakeView, Transaction, TableWriter, Merge)
CASES = [
    (kind, name)
    for kind in OWNERS
    for name in public_methods(kind)
    if name not in OF_OUR_OWN.get(kind, frozenset())
]


@pytest.mark.parametrize(("kind", "name"), CASES, ids=lambda each: getattr(each, "__name__", each))
def test_whatever_is_given_only_errors_of_the_tree_are_raised(
    kind: type, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    signature = public_methods(kind)[name]
    dice = Random(f"{SEED} {kind.__name__}.{name}")
    lake = new_lake()
    for _ in range(examples(ROUNDS) if signature.parameters.keys() - {"self"} else 1):
        call = hostile_call(name, signature, GOOD, dice)
        before = hg.Lake.open(Inspector(lake).store).version
        with _owner(kind, lake) as (owner, then):
            accepted = attempt(call, owner, _nothing if name in ENDS else then)
        if accepted:
            require_sound(lake, call)
            lake = new_lake()
        else:
            assert hg.Lake.open(Inspector(lake).store).version == before, f"{kind.__name__}.{call}"


# --- functions, and values that callers make ---------------------------------------------------------------

MADE = [(hg, name) for name in ("ExpirePolicy", "RetryPolicy", "fsck", "repair")] + [
    (hg.hooks, name) for name in hg.hooks.__all__ if name not in GIVEN
]


@pytest.mark.parametrize(("module", "name"), MADE, ids=lambda each: getattr(each, "__name__", each))
def test_so_do_functions_and_values(
    module: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    signature = inspect.signature(getattr(module, name))
    dice = Random(f"{SEED} {name}")
    for _ in range(examples(ROUNDS)):
        attempt(hostile_call(name, signature, GOOD, dice), module, registered)


def registered(made: Any) -> None:
    """An action and a hook are used, too."""
    if isinstance(made, hg.hooks.Action):
        made = hg.Hook("hook", made)
    if isinstance(made, hg.Hook):
        lake = new_lake()
        lake.add_hook(made)


def test_every_public_name_is_called() -> None:
    """What is neither called nor made by callers is a value: its methods take nothing."""
    called = {kind.__name__ for kind in OWNERS} | {name for _, name in MADE} | GIVEN | STARTS_SPARK
    for module in (hg, hg.hooks):
        for name in {*module.__all__} - called:
            thing = getattr(module, name)
            if isinstance(thing, type) and not issubclass(thing, HeadgateError):
                taking = [one for one, of in public_methods(thing).items() if of.parameters.keys() - {"self"}]
                assert not taking, name
            else:
                assert not inspect.isfunction(thing), name
