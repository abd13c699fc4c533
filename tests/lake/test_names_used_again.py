"""The changes of a table whose name was that of another one: exact, or refused and told where to begin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.storage.memory import MemoryStore

NAMES = ("t.a", "t.b")


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


@pytest.fixture
def lake() -> hg.Lake:
    lake = hg.Lake.init(MemoryStore(), strategy="conditional")
    lake.create_table("t.a", "id BIGINT").append(rows(1, 2))
    return lake


def test_changes_since_another_table_had_the_name_are_refused(lake: hg.Lake) -> None:
    lake.drop_table("t.a")
    table = lake.create_table("t.a", "id BIGINT")
    table.append(rows(3))
    for since in (1, 2):
        with pytest.raises(hg.NotFoundError, match=r"another table.* since version 4") as caught:
            table.changes_arrow(since)
        assert "version 4" in (caught.value.next_step or "")
    for since in (0, 3, 4):
        assert table.changes_arrow(since, columns=["id"])["id"].to_pylist() == [3]


def test_one_transaction_that_replaces_a_table_makes_another_one(lake: hg.Lake) -> None:
    with lake.transaction() as tx:
        tx.drop_table("t.a")
        tx.create_table("t.a", "id BIGINT").append(rows(3))
    with pytest.raises(hg.NotFoundError, match="since version 3"):
        lake.table("t.a").changes_arrow(2)
    assert lake.table("t.a").changes_arrow(3).num_rows == 0


def test_a_view_that_had_the_name_is_another_one_too(lake: hg.Lake) -> None:
    lake.create_view("t.v", "SELECT * FROM t.a")
    lake.drop_object("t.v")
    table = lake.create_table("t.v", "id BIGINT")
    with pytest.raises(hg.NotFoundError, match="since version 5"):
        table.changes_arrow(3)


def test_a_table_that_was_renamed_is_followed_by_its_old_name(lake: hg.Lake) -> None:
    """At `since` nothing had the new name, so nobody can have read something else there."""
    lake.rename_table("t.a", "t.b")
    lake.table("t.b").append(rows(3))
    assert lake.table("t.b").changes_arrow(2)["id"].to_pylist() == [3]


# --- any history of names, against a plain model ------------------------------------------------------------


def test_a_stale_handle_appends_to_the_table_that_has_the_name_however_often_it_changed_hands() -> None:
    store = MemoryStore()
    hg.Lake.init(store).create_table("a.b", "id BIGINT").append(rows(1))
    stale = hg.Lake.open(store).table("a.b")
    lake = hg.Lake.open(store)
    for number in (2, 3, 4):
        with lake.transaction() as tx:
            tx.drop_table("a.b")
            tx.create_table("a.b", "id BIGINT").append(rows(number))
    stale.append(rows(5))
    assert sorted(stale.read_arrow().column("id").to_pylist()) == [4, 5]


@dataclass(frozen=True)
class Model:
    """At a version: which table a name stands for, and the rows of each table that there ever was."""

    named: Mapping[str, int] = field(default_factory=dict)
    content: Mapping[int, Counter[int]] = field(default_factory=dict)

    def made(self, name: str) -> Model:
        fresh = len(self.content)
        return Model({**self.named, name: fresh}, {**self.content, fresh: Counter()})

    def without(self, name: str) -> Model:
        return Model({other: table for other, table in self.named.items() if other != name}, self.content)

    def renamed(self, **to: str) -> Model:
        return Model({to.get(name, name): table for name, table in self.named.items()}, self.content)

    def with_rows(self, name: str, content: Counter[int]) -> Model:
        return Model(self.named, {**self.content, self.named[name]: content})


def step(lake: hg.Lake, model: Model, kind: str, name: str, row: int) -> Model:
    """One commit, to the lake and to the model; the model as it was if the step does not apply."""
    other = NAMES[name == NAMES[0]]
    match kind, name in model.named, other in model.named:
        case "append", True, _:
            lake.table(name).append(rows(row))
            return model.with_rows(name, model.content[model.named[name]] + Counter([row]))
        case "delete", True, _ if (kept := model.content[model.named[name]].copy()).pop(row, None):
            lake.table(name).delete(f"id = {row}")
            return model.with_rows(name, kept)
        case "make", False, _:
            lake.create_table(name, "id BIGINT")
            return model.made(name)
        case "drop", True, _:
            lake.drop_table(name)
            return model.without(name)
        case "replace", True, _:
            with lake.transaction() as tx:
                tx.drop_table(name)
                tx.create_table(name, "id BIGINT")
            return model.without(name).made(name)
        case "rename", True, False:
            lake.rename_table(name, other)
            return model.renamed(**{name: other})
        case "rename", True, True:
            with lake.transaction() as tx:
                tx.rename_table(name, "t.between")
                tx.rename_table(other, name)
                tx.rename_table(name, other)
            return model.renamed(**{name: other, other: name})
    return model


KINDS = ("append", "append", "delete", "make", "make", "drop", "replace", "rename")
STEPS = st.tuples(st.sampled_from(KINDS), st.sampled_from(NAMES), st.integers(1, 2))


@settings(deadline=None)
@given(st.lists(STEPS, min_size=2, max_size=10))
def test_changes_lead_from_one_version_to_the_other_or_are_refused(
    history: list[tuple[str, str, int]],
) -> None:
    lake = hg.Lake.init(MemoryStore(), strategy="conditional")
    states = [Model()]
    for kind, name, row in history:
        after = step(lake, states[-1], kind, name, row)
        if after is not states[-1]:
            states.append(after)
    assert lake.version == len(states) - 1
    for until, now in enumerate(states):
        for name in now.named:
            for since in range(until + 1):
                check(lake, name, since, until, states)


def check(lake: hg.Lake, name: str, since: int, until: int, states: list[Model]) -> None:
    before, now = states[since], states[until]
    table = now.named[name]
    ask = lake.table(name, version=until).changes_arrow
    if before.named.get(name, table) != table:
        took = max(n for n in range(1, until + 1) if states[n - 1].named.get(name) != table)
        with pytest.raises(hg.NotFoundError, match="the name belonged to another") as caught:
            ask(since)
        assert caught.value.problem.endswith(f"since version {took}")
        assert f"version {took}," in (caught.value.next_step or "")
        assert states[took].named[name] == table
        since, before = took, states[took]
    content = Counter(before.content.get(table, Counter[int]()))
    for change in ask(since).to_pylist():
        content[change["id"]] += 1 if change["_change_type"] == "insert" else -1
    assert +content == +now.content[table]
