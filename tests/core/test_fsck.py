"""Judging what was seen of a lake: the cases that no single broken file makes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from headgate.core.fsck.control import judge_entry, judge_plans, judge_state
from headgate.core.fsck.kinds import KINDS
from headgate.core.fsck.log import Copy, LogJudge, SeenVersion
from headgate.core.fsck.tables import (
    SeenDeletes,
    hinted_version,
    judge_deletes,
    judge_unreferenced,
    owner_of,
)
from headgate.core.history.fold import apply, empty_state
from headgate.model.identifiers import TxId, Version
from headgate.model.identity import LakeIdentity
from headgate.model.json_object import encode
from headgate.model.plan import PendingPlan
from headgate.model.record import AppBatch, Command, Record
from headgate.model.state import AppProgress, LakeState

AT = datetime(2026, 11, 15, tzinfo=UTC)
IDENTITY = LakeIdentity("lake", 4, "conditional", ordered_listing=True, created_at=AT)
PLAIN, TRACKER = frozenset({"conditional", "rename"}), frozenset({"filetracker"})


def txid(number: int) -> TxId:
    return TxId(f"{number:032x}")


def start() -> LakeState:
    return empty_state(IDENTITY, IDENTITY.encode())


def record_after(state: LakeState, **fields: object) -> Record:
    version = state.version.next()
    record = Record(
        version=version,
        txid=txid(version.number),
        previous=state.digest,
        kind="commit",
        started_at=AT,
        committed_at=AT + timedelta(seconds=version.number),
        command=Command((), "ann", "host", 1),
        base=state.version,
        attempts=1,
        next_strategy="conditional",
    )
    return replace(record, **fields)  # type: ignore[arg-type]


def seen(record: Record, strategies: frozenset[str] = PLAIN, **fields: object) -> SeenVersion:
    key = f"log/{record.version}"
    found = SeenVersion(record.version, key, (Copy(key, record.encode(), strategies),), "checkpoint")
    return replace(found, **fields)  # type: ignore[arg-type]


def log(count: int, **of_last: object) -> tuple[list[Record], LakeState]:
    """A log of so many records, and the state that they make."""
    state, records = start(), []
    for number in range(1, count + 1):
        record = record_after(state, **(of_last if number == count else {}))
        state = apply(state, record, record.encode())
        records.append(record)
    return records, state


def judged(versions: list[SeenVersion]) -> LogJudge:
    judge = LogJudge(start(), "log/0", AT)
    for version in versions:
        judge.take(version)
    judge.end()
    return judge


def test_a_whole_log_makes_its_state() -> None:
    records, state = log(5)
    judge = judged([seen(record) for record in records])
    assert (judge.findings, judge.state, judge.head) == ([], state, Version(5))
    assert judge.certain and judge.complete


def test_records_in_the_wrong_place_at_the_end_are_leftovers() -> None:
    records, _ = log(5)
    judge = judged([*map(seen, records[:3]), seen(records[3], TRACKER), seen(records[4], TRACKER)])
    assert (judge.findings, judge.head) == ([], Version(3))
    assert judge.leftovers == ["log/4", "log/5"]
    assert judge.certain


def test_a_record_in_the_wrong_place_before_others_is_missing() -> None:
    records, _ = log(5)
    judge = judged([*map(seen, records[:3]), seen(records[3], TRACKER), seen(records[4])])
    assert [one.kind for one in judge.findings] == ["record-missing"]
    assert (judge.head, judge.leftovers, judge.certain) == (Version(5), ["log/4"], False)


def test_of_two_copies_the_one_counts_that_the_strategy_names() -> None:
    records, state = log(2)
    stray = Copy("stray", b"{}", TRACKER)
    last = seen(records[1])
    judge = judged([seen(records[0]), replace(last, copies=(stray, *last.copies))])
    assert (judge.findings, judge.state, judge.leftovers) == ([], state, ["stray"])


def test_after_a_lost_record_any_place_is_right() -> None:
    records, state = log(3)
    lost = replace(seen(records[1]), copies=())
    judge = judged([seen(records[0]), lost, seen(records[2], TRACKER)])
    assert [one.kind for one in judge.findings] == ["record-missing"]
    assert judge.state == state
    assert not judge.certain


def test_a_checkpoint_that_fits_its_record_makes_up_for_lost_ones() -> None:
    records, state = log(4)
    known = replace(state, tags={"from the lost one": Version(1)})
    lost = replace(seen(records[1]), copies=())
    good = judged([seen(records[0]), lost, seen(records[2]), seen(records[3], checkpoint=known.encode())])
    assert good.state == known and good.certain and not good.complete
    other = replace(known, digest="sha256:other")
    bad = judged([seen(records[0]), lost, seen(records[2]), seen(records[3], checkpoint=other.encode())])
    assert [one.kind for one in bad.findings] == ["record-missing", "checkpoint-differs"]
    assert not bad.certain


def test_objects_of_a_later_release_are_left_alone() -> None:
    records, _ = log(1)
    judge = judged([seen(records[0], checkpoint=encode({"format": 9}))])
    assert judge.findings == [] and judge.certain
    later = encode({"format": 9, "version": 1})
    assert judge_entry("key", later, Version(1), records[0], "").findings == ()


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"txid": txid(1)}, "was committed before"),
        ({"committed_at": AT - timedelta(days=1)}, "its time is before"),
        ({"base": Version(9)}, "based on version 9"),
    ],
)
def test_what_no_writer_commits_is_told(fields: dict[str, object], told: str) -> None:
    records, _ = log(3, **fields)
    (found,) = judged([seen(record) for record in records]).findings
    assert found.kind == "record-impossible" and told in found.problem


def test_a_cancelled_transaction_that_is_committed_is_told() -> None:
    state = start()
    first = record_after(state, cancels=(txid(2),))
    second = record_after(apply(state, first, first.encode()))
    (found,) = judged([seen(first), seen(second)]).findings
    assert "was cancelled before" in found.problem


def test_a_batch_must_be_where_the_state_says() -> None:
    records, state = log(2, app=AppBatch("loader", 7))
    judge = judged([seen(record) for record in records])
    assert judge_state(judge) == []
    judge.state = replace(state, apps={"loader": AppProgress(8, Version(1))})
    assert [one.kind for one in judge_state(judge)] == ["app-wrong"]


def test_a_plan_needs_its_table() -> None:
    _, state = log(1)
    judge = LogJudge(state, "", AT)
    plan = PendingPlan(txid(9), "clustering", "uuid", frozenset(), frozenset(), Version(1))
    judge.state = replace(state, plans={txid(9): plan})
    assert [one.kind for one in judge_plans(judge, {})] == ["plan-without-table"]


def test_deletes_of_files_that_are_gone_harm_nobody() -> None:
    deletes = SeenDeletes({"a": 1, "b": 2}, ("a", "b"))
    assert judge_deletes("key", deletes, {"a": 5, "b": 5}, set()) == []
    assert judge_deletes("key", deletes, {"a": 5}, {"b"}) == []
    assert [one.kind for one in judge_deletes("key", deletes, {"a": 5}, set())] == ["delete-dangling"]
    assert [one.kind for one in judge_deletes("key", deletes, {"a": 1}, {"b"})] == ["delete-differs"]


def test_files_belong_to_the_transaction_in_their_name() -> None:
    owner = txid(255)
    for key in (
        f"data/a/b/data/L0-{owner}/{'1' * 8}/x=1/{txid(3)}.parquet",
        f"data/a/b/data/L2-{1:020d}-{9:020d}-{owner}/x.parquet",
        f"data/a/b/metadata/{7:020d}-{owner}.metadata.json",
        f"data/a/b/metadata/snap-1-2-{owner}.avro",
        f"data/a/b/metadata/7-{owner}-m0.avro",
    ):
        assert owner_of(key) == owner, key
        assert judge_unreferenced({key: 3}, {owner}, None) == []
        assert "1 files with 3 bytes" in judge_unreferenced({key: 3}, set(), None)[0].problem
        assert len(judge_unreferenced({key: 3}, {owner}, set())) == 1
    file, summed = f"data/a/b/data/L0-{txid(1)}/x.parquet", f"data/a/b/data/L0-{txid(1)}/.x.parquet.crc"
    assert judge_unreferenced({summed: 12}, {txid(1)}, {file}) == []
    assert len(judge_unreferenced({summed: 12}, {txid(1)}, set())) == 1
    assert owner_of("data/a/b/metadata/version-hint.text") is None
    assert judge_unreferenced({"data/a/b/metadata/version-hint.text": 1}, set(), set()) == []


@pytest.mark.parametrize("text", [b"", b"-1", b"1.5", b"\xff", b"9" * 30, b"v3"])
def test_what_is_no_hint(text: bytes) -> None:
    assert hinted_version(text) is None


def test_every_kind_says_what_to_do() -> None:
    for name, kind in KINDS.items():
        assert kind.meaning and kind.next_step, name
