"""Which commit strategies a storage can carry, judged from what the probe found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from headgate.errors import InvalidInputError, StorageError, UnsupportedError
from headgate.model.probe import ProbeReport, Promise
from headgate.model.strategy import StrategyName

_ANY = (Promise.WHOLE_PUT, Promise.READ_AFTER_WRITE)

NEEDS: Mapping[StrategyName, tuple[Promise, ...]] = MappingProxyType(
    # In order of preference: fewest requests first.
    {
        StrategyName.CONDITIONAL: (*_ANY, Promise.CREATE_REFUSED, Promise.CREATE_RACE),
        StrategyName.RENAME: (*_ANY, Promise.RENAME_REFUSED, Promise.RENAME_RACE),
        StrategyName.FILETRACKER: (*_ANY, Promise.LIST_AFTER_WRITE),
    }
)
"""What each strategy stands on. Without one of these, two writers could both believe to have won."""

_REMEMBERED = (Promise.ORDERED_LISTING,)
"""What no strategy stands on, but is tried once and kept in the identity of the lake."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a strategy is safe on a storage; if not, what was broken, and what got no answer."""

    strategy: StrategyName
    broken: tuple[Promise, ...]
    unanswered: tuple[Promise, ...] = ()

    @property
    def safe(self) -> bool:
        return not self.broken and not self.unanswered


def verdicts(report: ProbeReport) -> tuple[Verdict, ...]:
    """One verdict per strategy, the preferred strategy first."""
    return tuple(_judged(report, strategy, needs) for strategy, needs in NEEDS.items())


def _judged(report: ProbeReport, strategy: StrategyName, needs: tuple[Promise, ...]) -> Verdict:
    missing = [promise for promise in needs if not report.holds(promise)]
    return Verdict(
        strategy,
        broken=tuple(promise for promise in missing if not report.unanswered(promise)),
        unanswered=tuple(promise for promise in missing if report.unanswered(promise)),
    )


def parse_strategy(name: str) -> StrategyName:
    """The strategy that a caller named; `InvalidInputError` lists the ones there are."""
    strategy = StrategyName.find(name)
    if strategy is None:
        known = ", ".join(map(str, StrategyName))
        raise InvalidInputError(f"{name!r} is not a commit strategy", f"choose one of {known}")
    return strategy


def choose(report: ProbeReport, wanted: StrategyName | None, place: str) -> StrategyName:
    """The wanted strategy, or the best safe one; `UnsupportedError` if there is none.

    `StorageError` if the storage did not answer where it matters: a better strategy than the one that would
    be chosen may well be safe, and the choice stays with the lake.
    """
    judged = {verdict.strategy: verdict for verdict in verdicts(report)}
    safe = [strategy for strategy, verdict in judged.items() if verdict.safe]
    for verdict in [judged[wanted]] if wanted is not None else judged.values():
        if verdict.safe:
            return verdict.strategy
        if not verdict.broken:
            raise _no_answer(report, verdict, place, safe)
    refused = judged[wanted or StrategyName.FILETRACKER]
    step = f"choose {' or '.join(map(str, safe))}" if safe else "use another storage"
    raise UnsupportedError(
        f"{place}: the strategy {refused.strategy} would be unsafe here: {_reasons(report, refused.broken)}",
        step,
    )


def require_for_init(report: ProbeReport, place: str) -> None:
    """Raises `UnsupportedError` where no lake can be made, `StorageError` if that cannot be told.

    Whatever the strategy: version 0 is decided with FileTracker, and the order of listings is remembered.
    """
    needs = _judged(report, StrategyName.FILETRACKER, (*NEEDS[StrategyName.FILETRACKER], *_REMEMBERED))
    broken = tuple(promise for promise in needs.broken if promise not in _REMEMBERED)
    if broken:
        raise UnsupportedError(
            f"{place}: no lake can be made here: {_reasons(report, broken)}",
            "use another storage, or one without a cache in between",
        )
    if needs.unanswered:
        raise _no_answer(report, needs, place, [])


def _no_answer(report: ProbeReport, verdict: Verdict, place: str, safe: list[StrategyName]) -> StorageError:
    instead = f", or choose {' or '.join(map(str, safe))} yourself" if safe else ""
    return StorageError(
        f"{place}: the storage did not answer when it was tried out, so nobody can tell whether "
        f"{verdict.strategy} is safe here: {_reasons(report, verdict.unanswered)}",
        f"check that the storage is reachable, then try again{instead}",
    )


def _reasons(report: ProbeReport, promises: tuple[Promise, ...]) -> str:
    return "; ".join(f"not seen: {promise.value} ({report.detail(promise)})" for promise in promises)
