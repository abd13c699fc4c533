"""The small pure decisions: windows, waiting, choosing a strategy, conflicts, the digest chain."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.compaction.windows import boundary_at_or_before
from headgate.core.conflict.detection import Incompatible, Retryable, find_conflicts, resolve
from headgate.core.conflict.footprint import Footprint
from headgate.core.conflict.retry import RetryPolicy, delay_seconds, read_ahead
from headgate.core.history.fold import follow
from headgate.core.plans.strategy import choose, parse_strategy, verdicts
from headgate.errors import CorruptLakeError, InvalidInputError, StorageError, UnsupportedError
from headgate.model.identifiers import StrategyName, TxId, Version
from headgate.model.probe import Finding, ProbeReport, Promise, Seen
from headgate.model.record import PropertyChange
from headgate.model.state import LakeState
from tests.model.test_record import a_record

OURS = TxId("0" * 32)


@given(number=st.integers(1, 10**9), divisor=st.integers(2, 20))
def test_a_boundary_is_the_last_multiple_of_the_divisor(number: int, divisor: int) -> None:
    boundary = boundary_at_or_before(Version(number), divisor).number
    assert boundary % divisor == 0
    assert number - divisor < boundary <= number


@given(losses=st.integers(1, 10_000), chance=st.floats(0, 1, exclude_max=True))
def test_waiting_is_bounded_and_free_the_first_time(losses: int, chance: float) -> None:
    policy = RetryPolicy(base=timedelta(milliseconds=10), cap=timedelta(seconds=1))
    delay = delay_seconds(policy, losses, chance)
    assert 0 <= delay <= 1
    assert delay_seconds(policy, 1, chance) == 0
    assert delay <= 0.01 * 2.0 ** min(losses, 40)
    assert 0 <= read_ahead(losses, 10) <= 10


def test_a_policy_that_cannot_work_is_refused() -> None:
    with pytest.raises(InvalidInputError):
        RetryPolicy(attempts=0)
    with pytest.raises(InvalidInputError):
        RetryPolicy(base=timedelta(seconds=-1))


def report(*broken: Promise) -> ProbeReport:
    return found(dict.fromkeys(broken, Seen.BROKEN))


def found(trials: dict[Promise, Seen]) -> ProbeReport:
    return ProbeReport(tuple(Finding(promise, trials.get(promise, Seen.KEPT), "seen") for promise in Promise))


def test_the_cheapest_safe_strategy_is_chosen() -> None:
    assert choose(report(), None, "here") is StrategyName.CONDITIONAL
    assert choose(report(Promise.CREATE_REFUSED), None, "here") is StrategyName.RENAME
    no_atomic = report(Promise.CREATE_RACE, Promise.RENAME_REFUSED)
    assert choose(no_atomic, None, "here") is StrategyName.FILETRACKER
    assert [verdict.safe for verdict in verdicts(no_atomic)] == [False, False, True]


def test_an_unsafe_strategy_is_refused_with_the_reason_and_the_safe_ones() -> None:
    with pytest.raises(UnsupportedError) as caught:
        choose(report(Promise.CREATE_RACE), StrategyName.CONDITIONAL, "here")
    assert Promise.CREATE_RACE.value in caught.value.problem
    assert caught.value.next_step == "choose rename or filetracker"


def test_silence_is_not_taken_for_a_broken_promise() -> None:
    silent = found({Promise.CREATE_RACE: Seen.UNANSWERED})
    with pytest.raises(StorageError, match="conditional"):
        choose(silent, None, "here")
    assert choose(silent, StrategyName.RENAME, "here") is StrategyName.RENAME
    # Where the better strategy is out of the question anyway, its silence does not matter.
    hopeless = found({Promise.CREATE_RACE: Seen.UNANSWERED, Promise.CREATE_REFUSED: Seen.BROKEN})
    assert choose(hopeless, None, "here") is StrategyName.RENAME


def test_a_storage_that_cannot_read_its_writes_is_refused_altogether() -> None:
    with pytest.raises(UnsupportedError, match="filetracker is unsafe"):
        choose(report(Promise.READ_AFTER_WRITE), None, "here")


def test_an_unknown_strategy_lists_the_known_ones() -> None:
    with pytest.raises(InvalidInputError, match="conditional, rename, filetracker"):
        parse_strategy("quantum")


def test_changes_of_the_same_property_conflict_and_of_others_do_not() -> None:
    ours = Footprint(OURS, PropertyChange({"a": "1"}, frozenset({"b"})))
    other = [a_record(lake_properties=PropertyChange({"c": "1"}))]
    assert find_conflicts(ours, other) == ()
    for change in (
        PropertyChange({"a": "2"}),
        PropertyChange({"b": "2"}),
        PropertyChange({}, frozenset({"a"})),
    ):
        (conflict,) = find_conflicts(ours, [a_record(lake_properties=change)])
        assert conflict.rule == 31
        assert resolve([conflict]) == Retryable((conflict,))


def test_a_record_that_cancels_us_ends_it() -> None:
    (conflict,) = find_conflicts(Footprint(OURS, PropertyChange({"a": "1"})), [a_record(cancels=(OURS,))])
    assert conflict.rule == 36
    assert resolve([conflict]) == Incompatible((conflict,))


def test_a_committed_transaction_cannot_be_cancelled() -> None:
    ours = Footprint(OURS, PropertyChange(), cancels=frozenset({TxId("a" * 32)}))
    (conflict,) = find_conflicts(ours, [a_record()])
    assert resolve([conflict]) == Incompatible((conflict,))


def test_a_record_must_name_the_bytes_before_it() -> None:
    state = LakeState(Version(6), "sha256:right", "conditional", "sha256:0")
    with pytest.raises(CorruptLakeError, match=r"version 7 \(there\).*version 6"):
        follow(state, a_record(previous="sha256:wrong").encode(), "there")
    record, after = follow(state, a_record(previous="sha256:right").encode(), "there")
    assert after.version == record.version == Version(7)
    assert after.digest.startswith("sha256:")
