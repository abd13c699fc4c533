"""Cancelling: what is cancelled can never commit, whoever tries it and however late."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import headgate as hg
from headgate.core.history.fold import MAX_CANCELLED
from headgate.errors import NoAnswerError
from headgate.model.identifiers import TxId
from headgate.model.plan import Service
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Answer, Create, Failed, Get, Request
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import Proceed, intercepted


def test_a_cancelled_transaction_cannot_commit() -> None:
    lake = hg.Lake.init(MemoryStore())
    tx = lake.transaction()
    tx.set_properties({"a": "1"})
    assert lake.cancel(tx.txid, args=["stop it"]).version == 1
    with pytest.raises(hg.ConflictError, match="it cancels this transaction"):
        tx.commit()
    with pytest.raises(hg.InvalidInputError, match="aborted"):
        tx.commit()
    assert dict(lake.properties) == {}
    assert lake.log()[0].args == ("stop it",)


def test_nor_after_many_versions_checkpoints_and_other_cancels() -> None:
    """The state has long forgotten it; the record that says so has not."""
    store = MemoryStore()
    lake, other = hg.Lake.init(store, divisor=4), hg.Lake.open(store)
    tx = lake.transaction()
    tx.set_properties({"a": "1"})
    other.cancel(tx.txid)
    with other.transaction() as vacuum:
        for number in range(MAX_CANCELLED):
            vacuum.cancel(TxId(f"{number:032x}"))
    for number in range(30):
        other.set_properties({"n": str(number)})
    assert TxId(tx.txid) not in Inspector(other).newest.cancelled
    assert hg.Lake.open(store).version == 32  # from a checkpoint that does not know of it either
    with pytest.raises(hg.ConflictError, match=r"version 1 .*it cancels this transaction"):
        tx.commit()


def test_nor_in_the_child_of_a_fork_nor_in_its_parent(tmp_path: Path) -> None:
    hg.Lake.init(tmp_path)
    script = Path(__file__).parent / "cancelled_transaction.py"
    result = subprocess.run(
        [sys.executable, script, tmp_path], capture_output=True, text=True, check=True, timeout=120
    )
    (said,) = {*result.stdout.splitlines()}
    assert said.startswith("conflict ")
    assert said.split()[1] not in {entry.txid for entry in hg.Lake.open(tmp_path).log()}


def test_nor_when_its_outcome_is_settled_after_the_answer_was_lost() -> None:
    """The record did not arrive, which nobody knows; then it is cancelled; then its writer looks again."""
    store = MemoryStore()
    silent = True

    def lossy(request: Request, proceed: Proceed) -> Answer:
        if silent and "/log/" in getattr(request, "key", "") and isinstance(request, Create | Get):
            return Failed(NoAnswerError("no answer (test)"))
        return proceed(request)

    hg.Lake.init(store, strategy="conditional")
    silent = False
    lake, other = hg.Lake.open(intercepted(store, lossy)), hg.Lake.open(store)
    tx = lake.transaction()
    tx.set_properties({"a": "1"})
    silent = True
    with pytest.raises(hg.CommitUnknownError):
        tx.commit()
    silent = False
    other.cancel(tx.txid)
    with pytest.raises(hg.ConflictError, match="it cancels this transaction"):
        tx.commit()
    assert other.resolve(tx.txid).committed is False


def test_what_ended_cannot_be_cancelled() -> None:
    lake = hg.Lake.init(MemoryStore())
    txid = lake.set_properties({"a": "1"}).txid
    with pytest.raises(hg.InvalidInputError, match="was committed as version 1"):
        lake.cancel(txid)
    other = "0" * 32
    lake.cancel(other)
    with pytest.raises(hg.InvalidInputError, match="was cancelled by version 2"):
        lake.cancel(other)
    for wrong in ("0" * 31, "", 7, None):
        with pytest.raises(hg.InvalidInputError, match="is not a transaction id"):
            lake.cancel(wrong)  # type: ignore[arg-type]
    assert lake.version == 2


# --- plans --------------------------------------------------------------------------------------------------


def lake_with_plan() -> tuple[hg.Lake, TxId]:
    lake = hg.Lake.init(MemoryStore(), divisor=4)
    lake.create_table("a.b", "id BIGINT")
    with lake.transaction() as tx:
        plan = tx.plan("compaction", "a.b", ["f1", "f2"], ["/a/b"], {"window": [0, 4]})
    return lake, plan


def test_a_plan_is_pending_in_every_handle_and_survives_checkpoints() -> None:
    lake, plan = lake_with_plan()
    for number in range(9):
        lake.set_properties({"n": str(number)})
    opened = hg.Lake.open(Inspector(lake).store)
    (pending,) = Inspector(opened).newest.plans.values()
    assert (pending.txid, pending.version.number) == (plan, 2)
    assert dict(pending.unknown) == {"window": [0, 4]}
    assert lake.log(limit=1, before=3)[0].kind == "plan"


def test_the_second_planner_of_a_file_is_refused_and_its_rerun_sees_why() -> None:
    lake, plan = lake_with_plan()
    late = lake.transaction()
    late.plan("clustering", "a.b", ["f2", "f3"], ["/a/b"])
    with pytest.raises(hg.ConflictError, match=r"overlaps in 1 file .*plan against plan"):
        late.commit()
    with lake.transaction() as tx:
        tx.plan("clustering", "a.b", ["f3"], ["/a/b"])
    assert set(Inspector(lake).newest.plans) == {plan, TxId(tx.txid)}


def test_two_planners_at_once_and_one_wins() -> None:
    lake = hg.Lake.init(MemoryStore())
    lake.create_table("a.b", "id BIGINT")
    one, two = lake.transaction(), lake.transaction()
    for tx in (one, two):
        tx.plan("compaction", "a.b", ["f1"], ["/a/b"])
    one.commit()
    with pytest.raises(hg.ConflictError, match="plan against plan"):
        two.commit()


def test_a_plan_is_completed_once() -> None:
    lake, plan = lake_with_plan()
    one, two = lake.transaction(), lake.transaction()
    for tx in (one, two):
        tx.complete(plan)
    one.commit()
    with pytest.raises(hg.ConflictError, match="is not pending"):
        two.commit()
    assert not Inspector(lake).newest.plans
    with pytest.raises(hg.InvalidInputError, match="has nothing pending"):
        lake.cancel(plan.text)


def test_a_plan_that_is_cancelled_is_not_completed() -> None:
    lake, plan = lake_with_plan()
    tx = lake.transaction()
    tx.complete(plan)
    lake.cancel(plan.text)
    with pytest.raises(hg.ConflictError, match="was cancelled"):
        tx.commit()
    assert not Inspector(lake).newest.plans


def test_a_plan_that_is_completed_meanwhile_is_not_cancelled() -> None:
    lake, plan = lake_with_plan()
    cancelling = lake.transaction()
    cancelling.cancel(plan)
    with lake.transaction() as tx:
        tx.complete(plan)
    with pytest.raises(hg.ConflictError, match="completed or cancelled meanwhile"):
        cancelling.commit()
    assert plan not in Inspector(lake).newest.cancelled


def test_the_plans_of_a_dropped_table_are_over() -> None:
    lake, plan = lake_with_plan()
    lake.drop_table("a.b")
    assert not Inspector(lake).newest.plans
    tx = lake.transaction()
    tx.complete(plan)
    with pytest.raises(hg.ConflictError, match="is not pending"):
        tx.commit()


@pytest.mark.parametrize("service", ["compaction", "clustering"])
def test_a_plan_for_files_that_were_replaced_meanwhile_is_refused(service: Service) -> None:
    """It could never be completed. Rows that were deleted in them, or files beside them, do not matter."""
    lake = hg.Lake.init(MemoryStore())
    table = lake.create_table("t.t", "id BIGINT")
    table.append(pa.table({"id": [1, 2, 3]}))
    (file,) = table.files()
    planning, late = lake.transaction(), lake.transaction()
    for tx in (planning, late):
        tx.plan(service, "t.t", [file.path], [])
    table.delete("id = 1")
    table.append(pa.table({"id": [4]}))
    planning.commit()
    lake.cancel(planning.txid)
    table.overwrite(pa.table({"id": [5]}))
    with pytest.raises(hg.ConflictError, match=r"it replaced 1 of the files .* \[rule 23:"):
        late.commit()
