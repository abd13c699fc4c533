"""Creating a lake: testing the storage, choosing a commit strategy, and deciding the identity."""

from __future__ import annotations

from collections.abc import Callable

from headgate.core.plans.strategy import choose, require_for_init
from headgate.log.driver import Driver
from headgate.log.genesis import decide_identity, refuse_existing
from headgate.log.probe import probe
from headgate.model.identifiers import StrategyName
from headgate.model.identity import LakeIdentity
from headgate.model.probe import ProbeReport, Promise
from headgate.model.record import Command


def create(
    driver: Driver,
    strategy: StrategyName | None,
    divisor: int,
    command: Command,
    on_probe: Callable[[ProbeReport], None] | None,
) -> None:
    """Creates an empty lake. `strategy` is the first commit strategy; by default the best that is safe."""
    # Before the probe writes anything: a lake that exists must not be touched.
    refuse_existing(driver)
    report = probe(driver.store, driver.host)
    if on_probe is not None:
        on_probe(report)
    place = driver.store.describe()
    require_for_init(report, place)
    identity = LakeIdentity(
        lake_id=driver.host.new_txid().text,
        divisor=divisor,
        first_strategy=choose(report, strategy, place).value,
        ordered_listing=report.holds(Promise.ORDERED_LISTING),
        created_at=driver.host.now(),
        command=command,
    )
    decide_identity(driver, identity)
