"""Folding records into the state: plans come and go, and what is cancelled is remembered within bounds."""

from __future__ import annotations

from dataclasses import replace

from headgate.core.history.fold import MAX_CANCELLED, apply
from headgate.model.identifiers import GENESIS, TxId, Version
from headgate.model.named_object import NamedObject, ObjectAction, ObjectCommit, View
from headgate.model.plan import PendingPlan
from headgate.model.record import Record
from headgate.model.state import LakeState
from headgate.model.table import TableAction, TableCommit, TableRef
from tests.model.test_record import a_record

EMPTY = LakeState(GENESIS, "sha256:0", "conditional", "sha256:0")


def txid(number: int) -> TxId:
    return TxId(f"{number:032x}")


def planned(number: int, table: str = "u") -> PendingPlan:
    return PendingPlan(txid(number), "compaction", table, frozenset({"f"}), frozenset({"/a/b"}))


def folded(*records: Record) -> LakeState:
    state = EMPTY
    for record in records:
        at = state.version.next()
        plan = None if record.plan is None else replace(record.plan, version=at)
        state = apply(state, replace(record, version=at, plan=plan), b"")
    return state


def test_a_plan_is_pending_until_a_record_completes_it() -> None:
    scheduled = a_record(txid=txid(1), plan=planned(1))
    state = folded(scheduled)
    assert state.plans == {txid(1): replace(planned(1), version=Version(1))}
    assert folded(scheduled, a_record(txid=txid(2), completes=(txid(1),))).plans == {}
    assert folded(scheduled, a_record(txid=txid(2))).plans == state.plans


def test_a_plan_is_pending_until_a_record_cancels_it() -> None:
    scheduled = a_record(txid=txid(1), plan=planned(1))
    state = folded(scheduled, a_record(txid=txid(2), cancels=(txid(1),)))
    assert state.plans == {}
    assert state.cancelled == {txid(1): Version(2)}


def test_one_record_can_replace_a_plan_by_another() -> None:
    state = folded(
        a_record(txid=txid(1), plan=planned(1)), a_record(txid=txid(2), plan=planned(2), cancels=(txid(1),))
    )
    assert list(state.plans) == [txid(2)]


def test_the_plans_of_a_dropped_table_are_gone() -> None:
    drop = TableCommit("a.b", TableAction.DROP, TableRef("u", "data/a/b", "m"))
    state = folded(
        a_record(txid=txid(1), plan=planned(1)),
        a_record(txid=txid(2), plan=planned(2, "other")),
        a_record(txid=txid(3), tables=(drop,)),
    )
    assert list(state.plans) == [txid(2)]


def test_only_the_newest_cancelled_transactions_are_remembered_whatever_the_order_in_a_record() -> None:
    many = tuple(txid(number) for number in range(MAX_CANCELLED))
    one = folded(a_record(cancels=(txid(5000),)), a_record(cancels=many))
    other = folded(a_record(cancels=(txid(5000),)), a_record(cancels=many[::-1]))
    assert len(one.cancelled) == MAX_CANCELLED
    assert txid(5000) not in one.cancelled
    assert one.encode() == other.encode()
    later = folded(a_record(cancels=many), a_record(cancels=(txid(5000),)))
    assert len(later.cancelled) == MAX_CANCELLED
    assert later.cancelled[txid(5000)] == Version(2)


def named(uuid: str, sql: str = "SELECT 1") -> NamedObject:
    return NamedObject(uuid, View(sql))


def test_views_come_change_and_go() -> None:
    made = a_record(objects=(ObjectCommit("a.v", ObjectAction.CREATE, named("v")),))
    assert folded(made).objects == {"a.v": named("v")}
    replaced = a_record(objects=(ObjectCommit("a.v", ObjectAction.REPLACE, named("v", "SELECT 2")),))
    assert folded(made, replaced).objects == {"a.v": named("v", "SELECT 2")}
    assert folded(made, a_record()).objects == {"a.v": named("v")}
    dropped = a_record(objects=(ObjectCommit("a.v", ObjectAction.DROP, named("v")),))
    assert folded(made, dropped).objects == {}


def test_two_views_may_exchange_their_names() -> None:
    made = [a_record(objects=(ObjectCommit(f"a.{u}", ObjectAction.CREATE, named(u)),)) for u in "vw"]
    exchanged = a_record(
        objects=(
            ObjectCommit("a.w", ObjectAction.RENAME, named("v"), "a.v"),
            ObjectCommit("a.v", ObjectAction.RENAME, named("w"), "a.w"),
        )
    )
    assert folded(*made, exchanged).objects == {"a.v": named("w"), "a.w": named("v")}


def test_a_view_may_take_the_name_of_a_table_in_one_record() -> None:
    table = TableRef("u", "data/a/b", "m")
    state = folded(
        a_record(tables=(TableCommit("a.b", TableAction.CREATE, table),)),
        a_record(
            tables=(TableCommit("a.b", TableAction.DROP, table),),
            objects=(ObjectCommit("a.b", ObjectAction.CREATE, named("v")),),
        ),
    )
    assert (state.tables, state.objects) == ({}, {"a.b": named("v")})
