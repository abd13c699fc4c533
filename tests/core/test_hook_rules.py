"""Which hooks are due for a commit, and in which order: rules without any action."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.plans.hooks import KINDS, HookRule, When, due, held_up_by, in_order, kinds_of
from headgate.errors import InvalidInputError
from headgate.model.control_entry import HookRun, HookState
from headgate.model.record import AppBatch, Record
from headgate.model.table import PathChange, TableAction, TableCommit, TableRef
from tests.model.test_record import a_record


def changed(name: str, *verbs: str, action: str = "change", renamed_from: str | None = None) -> TableCommit:
    ref = TableRef("uuid", "data/x", "data/x/metadata/1.json")
    return TableCommit(name, TableAction(action), ref, renamed_from, verbs=frozenset(verbs))


def record(*tables: TableCommit, kind: str = "commit") -> Record:
    return a_record(tables=tables, kind=kind)


APPEND = record(changed("sales.orders", "append"), changed("sales.totals", "overwrite"))


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        (When(), True),
        (When(tables=["sales.orders"]), True),
        (When(tables=["sales.*"]), True),
        (When(tables=["other.*", "sales.totals"]), True),
        (When(tables=["other.*"]), False),
        (When(tables=["SALES.orders"]), False),
        (When(kinds=["append"]), True),
        (When(kinds=["commit"]), True),
        (When(kinds=["change"]), True),
        (When(kinds=["drop", "delete"]), False),
        (When(tables=["sales.orders"], kinds=["append"]), True),
        (When(tables=["sales.orders"], kinds=["overwrite"]), False),
        (When(tables=["sales.*"], kinds=["overwrite"]), True),
        (When(tables=["sales.orders"], kinds=["commit"]), True),
    ],
)
def test_both_conditions_hold_for_the_same_table(when: When, holds: bool) -> None:
    assert when.holds(APPEND) is holds


def test_a_commit_without_tables_has_the_kind_of_its_version() -> None:
    switch = record(kind="switch")
    assert When(kinds=["switch"]).holds(switch) and When().holds(switch)
    assert not When(kinds=["append"]).holds(switch) and not When(tables=["*"]).holds(switch)


def test_a_renamed_table_has_both_names() -> None:
    renamed = record(changed("b.new", action="rename", renamed_from="a.old"))
    assert When(tables=["a.old"]).holds(renamed) and When(tables=["b.*"], kinds=["rename"]).holds(renamed)


def test_every_kind_of_a_commit_can_be_asked_for() -> None:
    everything = record(changed("a.b", "append", "delete", "compact", action="create"))
    assert kinds_of(everything) == {"commit", "create", "append", "delete", "compact"} <= {*KINDS}


@pytest.mark.parametrize(
    ("tables", "kinds", "told"),
    [
        ("sales.orders", (), "not a string"),
        (["orders"], (), "not a table name"),
        ([7], (), "non-empty strings"),
        ((), "append", "not a string"),
        ((), ["apend"], "did you mean append"),
        ((), ["everything-else"], "kinds: commit, plan"),
    ],
)
def test_a_condition_that_could_never_hold_is_refused(
    tables: Sequence[str], kinds: Sequence[str], told: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        When(tables, kinds)
    assert told in str(caught.value)


def names(rules: Sequence[HookRule]) -> list[str]:
    return [rule.name for rule in rules]


def test_hooks_run_as_given_but_behind_what_they_come_after() -> None:
    rules = [HookRule("a", ("c",)), HookRule("b"), HookRule("c"), HookRule("d", ("b", "a"))]
    assert names(in_order(rules)) == ["b", "c", "a", "d"]
    assert names(in_order([HookRule("z"), HookRule("y"), HookRule("x")])) == ["z", "y", "x"]


@given(st.data())
def test_any_hooks_without_a_cycle_have_an_order(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 8))
    ranks = data.draw(st.permutations(range(count)))
    rules = [
        HookRule(f"h{rank}", tuple(data.draw(st.sets(st.sampled_from([f"h{n}" for n in range(rank)])))))
        if rank
        else HookRule("h0")
        for rank in ranks
    ]
    order = names(in_order(rules))
    assert sorted(order) == sorted(names(rules))
    for rule in rules:
        assert all(order.index(name) < order.index(rule.name) for name in rule.after)


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ([HookRule("a", ("a",))], "a -> a"),
        ([HookRule("a", ("b",)), HookRule("b", ("c",)), HookRule("c", ("a",))], "wait for each other"),
        ([HookRule("a"), HookRule("a")], "two hooks have the name a"),
        ([HookRule("publish"), HookRule("b", ("publsh",))], "did you mean publish"),
        ([HookRule("a b")], "is not a valid hook name"),
        ([HookRule("../a")], "is not a valid hook name"),
        ([HookRule("")], "is not a valid hook name"),
        ([HookRule("x" * 101)], "is not a valid hook name"),
    ],
)
def test_what_cannot_be_ordered_is_refused(rules: list[HookRule], told: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        in_order(rules)
    assert told in str(caught.value)


def test_due_are_those_whose_condition_holds_in_order() -> None:
    rules = in_order(
        [
            HookRule("late", ("early",)),
            HookRule("never", (), When(tables=["x.y"])),
            HookRule("early", (), When(kinds=["append"])),
        ]
    )
    assert due(rules, APPEND) == ("early", "late")
    assert due(rules, record(kind="switch")) == ("late",)


def test_a_hook_waits_for_those_that_are_due_too_and_not_done() -> None:
    rule = HookRule("c", ("a", "b"))
    runs = {"a": HookRun("a", HookState.DONE), "b": HookRun("b", HookState.FAILED), "c": HookRun("c")}
    assert held_up_by(rule, runs) == ("b",)
    assert held_up_by(rule, {"c": HookRun("c")}) == ()


LOADED = a_record(
    tables=(
        changed("sales.orders", "append"),
        changed("sales.totals", "append"),
        changed("sales.voids", "delete"),
    ),
    paths={
        "/sales/orders/day=1": PathChange(files_added=1, rows_added=70, rows_removed=20),
        "/sales/orders/day=2": PathChange(files_added=1, rows_added=5),
        "/sales/totals": PathChange(files_added=1, rows_added=3),
        "/sales/voids/kind=[a]": PathChange(files_removed=1, rows_removed=900),
    },
    app=AppBatch("loader-7", 3),
)


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        (When(min_rows=998), True),
        (When(min_rows=999), False),
        (When(kinds=["append"], min_rows=98), True),
        (When(kinds=["append"], min_rows=99), False),
        (When(kinds=["delete"], min_rows=900), True),
        (When(kinds=["delete"], min_rows=901), False),
        (When(tables=["sales.totals"], min_rows=3), True),
        (When(tables=["sales.totals"], min_rows=4), False),
        (When(paths=["/sales/orders"]), True),
        (When(paths=["/sales/orders/day=2"], min_rows=5), True),
        (When(paths=["/sales/orders/day=2"], min_rows=6), False),
        (When(paths=["/sales/*/day=2"]), True),
        (When(paths=["/sales/order"]), False),
        (When(paths=["/sales/orders/"]), True),
        (When(paths=["/"]), True),
        (When(paths=["/sales/voids/kind=[a]"]), True),
        (When(paths=["/sales/voids/kind=[b]"]), False),
        (When(paths=["/other", "/sales/totals"]), True),
        (When(tables=["sales.totals"], paths=["/sales/orders"]), False),
        (When(users=["ann"]), True),
        (When(users=["a*", "bob"]), True),
        (When(users=["bob"]), False),
        (When(apps=["loader-*"]), True),
        (When(apps=["loader"]), False),
        (When(kinds=["append"], users=["ann"], apps=["loader-7"], min_rows=98, paths=["/sales"]), True),
        (When(kinds=["merge"], users=["ann"]), False),
    ],
)
def test_conditions_ask_for_rows_paths_user_and_application(when: When, holds: bool) -> None:
    assert when.holds(LOADED) is holds


def test_a_commit_without_an_application_or_rows_does_not_fit_those_who_ask_for_one() -> None:
    assert not When(apps=["*"]).holds(record()) and not When(min_rows=1).holds(record())
    assert not When(paths=["/*"]).holds(record())


@pytest.mark.parametrize(
    "given", [{"min_rows": -1}, {"min_rows": 1.5}, {"min_rows": True}, {"paths": ["sales"]}, {"users": "ann"}]
)
def test_what_could_never_hold_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        When(**given)
