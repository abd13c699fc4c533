"""Which commit strategies are safe on a storage, judged from the report of the probe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from headgate.errors import InvalidInputError, StorageError, UnsupportedError, shown
from headgate.model.identifiers import StrategyName
from headgate.model.probe import ProbeReport, Promise

_ANY = (Promise.WHOLE_PUT, Promise.READ_AFTER_WRITE)

NEEDS: Mapping[StrategyName, tuple[Promise, ...]] = MappingProxyType(
    # In order of preference: fewest requests first.
    {
        StrategyName.CONDITIONAL: (*_ANY, Promise.CREATE_REFUSED, Promise.CREATE_RACE),
        StrategyName.RENAME: (*_ANY, Promise.RENAME_REFUSED, Promise.RENAME_RACE),
        StrategyName.FILETRACKER: (*_ANY, Promise.LIST_AFTER_WRITE),
    }
)
"""The promises that each strategy needs. Without one of them, two writers could both think that they won."""

_REMEMBERED = (Promise.ORDERED_LISTING,)
"""What no strategy needs, but is tested once and stored in the identity of the lake."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a strategy is safe on a storage; if not, which promises were broken or got no answer."""

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
    """The strategy with this name. Raises `InvalidInputError`, which lists the valid names."""
    strategy = StrategyName.find(name)
    if strategy is None:
        known = ", ".join(map(str, StrategyName))
        raise InvalidInputError(f"{shown(name)} is not a commit strategy", f"choose one of {known}")
    return strategy


def choose(report: ProbeReport, wanted: StrategyName | None, place: str) -> StrategyName:
    """The wanted strategy, or the best safe one. Raises `UnsupportedError` if there is none.

    Raises `StorageError` if the storage did not answer where it matters: a better strategy than the chosen
    one may be safe, and the lake keeps the strategy that is chosen now.
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
        f"the strategy {refused.strategy} is unsafe at {place}: {_reasons(report, refused.broken)}",
        step,
    )


def require_for_init(report: ProbeReport, place: str) -> None:
    """Raises `UnsupportedError` where no lake can be created, and `StorageError` if that is unknown.

    The strategy does not matter: version 0 is decided with FileTracker, and the order of listings is stored.
    """
    needs = _judged(report, StrategyName.FILETRACKER, (*NEEDS[StrategyName.FILETRACKER], *_REMEMBERED))
    broken = tuple(promise for promise in needs.broken if promise not in _REMEMBERED)
    if broken:
        raise UnsupportedError(
            f"cannot create a lake at {place}: {_reasons(report, broken)}",
            "use another storage, or access this one without a cache in between",
        )
    if needs.unanswered:
        raise _no_answer(report, needs, place, [])


def _no_answer(report: ProbeReport, verdict: Verdict, place: str, safe: list[StrategyName]) -> StorageError:
    instead = f", or choose {' or '.join(map(str, safe))} yourself" if safe else ""
    return StorageError(
        f"{place}: the storage did not answer the probe, so it is unknown whether {verdict.strategy} is safe "
        f"there: {_reasons(report, verdict.unanswered)}",
        f"check that the storage is reachable, then try again{instead}",
    )


def _reasons(report: ProbeReport, promises: tuple[Promise, ...]) -> str:
    return "; ".join(f"not observed: {promise.value} ({report.detail(promise)})" for promise in promises)
