"""Which commit strategies a storage can carry, judged from what the probe found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from headgate.errors import InvalidInputError, UnsupportedError
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


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a strategy is safe on a storage, and the broken promises if not."""

    strategy: StrategyName
    broken: tuple[Promise, ...]

    @property
    def safe(self) -> bool:
        return not self.broken


def verdicts(report: ProbeReport) -> tuple[Verdict, ...]:
    """One verdict per strategy, the preferred strategy first."""
    return tuple(
        Verdict(strategy, tuple(promise for promise in needs if not report.holds(promise)))
        for strategy, needs in NEEDS.items()
    )


def parse_strategy(name: str) -> StrategyName:
    """The strategy that a caller named; `InvalidInputError` lists the ones there are."""
    try:
        return StrategyName(name)
    except ValueError:
        known = ", ".join(strategy.value for strategy in StrategyName)
        raise InvalidInputError(f"{name!r} is not a commit strategy", f"choose one of {known}") from None


def choose(report: ProbeReport, wanted: StrategyName | None, place: str) -> StrategyName:
    """The wanted strategy, or the best safe one; `UnsupportedError` if there is none."""
    judged = {verdict.strategy: verdict for verdict in verdicts(report)}
    safe = [strategy for strategy, verdict in judged.items() if verdict.safe]
    if wanted is None and safe:
        return safe[0]
    if wanted is not None and judged[wanted].safe:
        return wanted
    refused = judged[wanted or StrategyName.FILETRACKER]
    reasons = "; ".join(f"not seen: {promise.value} ({report.detail(promise)})" for promise in refused.broken)
    step = f"choose {' or '.join(map(str, safe))}" if safe else "use another storage"
    raise UnsupportedError(f"{place}: the strategy {refused.strategy} would be unsafe here: {reasons}", step)
