"""What has been explored of the shipped protocols: `python -m tests.exploration.report`.

Each configuration is a set of clients and what may happen to them; the report explores every order of their
requests and prints what it visited. The tests explore the same configurations. Those marked deep take
minutes and are left to the command (`--deep`).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from headgate.log.cleanup import CleanUp
from headgate.log.conditional import ConditionalPublish
from headgate.log.filetracker import FileTrackerPublish
from headgate.log.head import FollowLog
from headgate.log.layout import PLAIN, TRACKER, RecordLayout, entry_key
from headgate.log.machine import Ask, Committed, Finish, Lost, Machine, Rejected, Unknown
from headgate.log.rename import RenamePublish
from headgate.log.strategy import versions_in
from headgate.model.identifiers import GENESIS, TxId, Version
from headgate.storage.requests import Answer, Put
from tests.exploration.explorer import Client, Exploration, Explorer, Faults, Objects
from tests.exploration.laws import LossLaws, PersistentClient, ProtocolLaws, rounds_up_to

Claim = FileTrackerPublish | ConditionalPublish | RenamePublish

NO_FAULTS = Faults()


@dataclass(frozen=True, slots=True)
class Configuration:
    """Clients and what may happen to them. An exploration that visits fewer `worlds` missed something."""

    name: str
    clients: tuple[Client, ...]
    worlds: int
    faults: Faults = NO_FAULTS
    rounds: int | None = None
    keys_per_page: int | None = None
    listed_by: Callable[[str], Any] = str
    deep: bool = False
    objects: Objects = field(default_factory=dict)
    laws: type[ProtocolLaws] = ProtocolLaws

    def explorer(self) -> Explorer:
        return Explorer(
            self.clients,
            self.laws(self.clients, storage_fails=self.faults.budget > 0),
            self.objects,
            faults=self.faults,
            keys_per_page=self.keys_per_page,
            listed_by=self.listed_by,
            allow=rounds_up_to(self.rounds) if self.rounds is not None else lambda _: True,
        )


def claimant(number: int) -> TxId:
    """The id of a client. Ballots of one round are ordered by it."""
    return TxId(f"{number:032x}")


def record_of(number: int, version: int) -> bytes:
    return b"c%d/%d" % (number, version)


def claim(kind: type[Claim], number: int, version: int = 1) -> Claim:
    """A claim of client `number` for a version, with a record of its own."""
    return kind(Version(version), record_of(number, version), claimant(number))


def unordered(number: int, version: int = 1) -> FileTrackerPublish:
    """FileTracker's claim on a storage that does not list in key order."""
    return FileTrackerPublish(
        Version(version), record_of(number, version), claimant(number), ordered_listing=False
    )


def hints_first(key: str) -> tuple[bool, str]:
    """The order of listing that would hurt most: the decided record is looked for before the attempts."""
    return "/sub-hint/" not in key, key


def rivals(kind: type[Claim], count: int, versions: tuple[int, ...] = (1,)) -> tuple[Client, ...]:
    """Clients that all claim the same versions, one after the other."""
    return tuple(
        Client(f"c{number}", tuple(claim(kind, number, version) for version in versions))
        for number in range(1, count + 1)
    )


def resolving(kind: type[Claim], number: int, resolves: int = 1) -> Client:
    """A client that, told `Unknown`, publishes the same record again under a fresh id."""
    record = record_of(number, 1)
    again = (
        kind(Version(1), record, claimant(number + 16 * more), doubt=True) for more in range(1, resolves + 1)
    )
    return PersistentClient(f"c{number}", (claim(kind, number), *again))


def writer(number: int, *steps: int | Machine[Any]) -> Client:
    """A client of FileTracker that claims versions and does other things in between."""
    tasks = (claim(FileTrackerPublish, number, step) if isinstance(step, int) else step for step in steps)
    return Client(f"c{number}", tuple(tasks))


@dataclass(frozen=True, slots=True)
class WritingReceipt:
    """The version is decided; its control entry is being written."""


@dataclass(frozen=True, slots=True)
class WithReceipt:
    """A claim, and if it wins the control entry of the version: the sign that readers look for."""

    claim: Claim

    @property
    def version(self) -> Version:
        return self.claim.version

    @property
    def record(self) -> bytes:
        return self.claim.record

    @property
    def layout(self) -> RecordLayout:
        return self.claim.layout

    def begin(self) -> Ask | Finish[Committed | Lost | Unknown | Rejected]:
        return self.claim.begin()

    def resume(
        self, state: Any, answers: tuple[Answer, ...]
    ) -> Ask | Finish[Committed | Lost | Unknown | Rejected]:
        if isinstance(state, WritingReceipt):
            return Finish(Committed())  # whether or not it could be written: recovery makes up for it
        step = self.claim.resume(state, answers)
        if isinstance(step, Finish) and isinstance(step.result, Committed):
            return Ask(WritingReceipt(), (Put(entry_key(self.version), b"receipt"),))
        return step


WINDOW = 10
"""The windows of the lakes that are explored."""


def opening(layout: RecordLayout, at_once: int = 2) -> FollowLog[Version]:
    """What opening a lake does: follows the log to its end, and looks for signs that it went on once."""
    return FollowLog(GENESIS, versions_in(layout), at_once, window=WINDOW)


def lost_end(kind: type[Claim], reader: FollowLog[Version]) -> Configuration:
    """A log that has lost versions 1 to 4, except their control entries, and a writer that does not know."""
    receipts = {entry_key(Version(version)): b"receipt" for version in range(1, 5)}
    clients = (Client("c1", (claim(kind, 1),)), Client("reader", (reader,)))
    name = f"lost end, {type(reader).__name__}"
    return Configuration(name, clients, 20, rounds=1, objects=receipts, laws=LossLaws)


CLEAN = CleanUp(keep=1)
READER = Client("reader", (opening(TRACKER), opening(TRACKER, at_once=1)))
PLAIN_READER = Client("reader", (opening(PLAIN), opening(PLAIN, at_once=1)))
CLEANER = Client("cleaner", (CLEAN,))


def filetracker() -> Iterator[Configuration]:
    """Races for one version."""
    two, three = rivals(FileTrackerPublish, 2), rivals(FileTrackerPublish, 3)
    one_fault, two_faults, refusals = Faults(1), Faults(2), Faults(2, refuse=True)
    yield Configuration("2 clients, 3 rounds", two, 1_800, rounds=3)
    yield Configuration("2 clients, 3 rounds, split listings", two, 18_000, rounds=3, keys_per_page=1)
    yield Configuration("2 clients, 3 rounds, 1 fault", two, 27_000, one_fault, rounds=3)
    yield Configuration("2 clients, 3 rounds, 2 faults, refusals", two, 220_000, refusals, rounds=3)
    yield Configuration(
        "2 clients, 3 rounds, split listings, 1 fault", two, 240_000, one_fault, rounds=3, keys_per_page=1
    )
    yield Configuration("3 clients, 2 rounds", three, 51_000, rounds=2)
    yield Configuration("3 clients, 2 rounds, 1 fault", three, 800_000, one_fault, rounds=2)
    yield Configuration("3 clients, 1 round, split listings", three, 130_000, rounds=1, keys_per_page=1)
    disordered = tuple(Client(f"c{number}", (unordered(number),)) for number in (1, 2))
    yield Configuration(
        "2 clients, 3 rounds, listings without order",
        disordered,
        24_000,
        rounds=3,
        keys_per_page=1,
        listed_by=hints_first,
    )
    yield Configuration(
        "2 clients, 3 rounds, listings without order, 1 fault",
        disordered,
        320_000,
        one_fault,
        rounds=3,
        keys_per_page=1,
        listed_by=hints_first,
    )
    yield Configuration(
        "2 clients, 3 rounds, split listings, 2 faults",
        two,
        1_600_000,
        two_faults,
        rounds=3,
        keys_per_page=1,
        deep=True,
    )
    yield Configuration(
        "3 clients, 2 rounds, split listings", three, 3_600_000, rounds=2, keys_per_page=1, deep=True
    )


def filetracker_log() -> Iterator[Configuration]:
    """Versions in sequence, clean-up behind them, readers beside them, and a client late for version 1."""
    cleaning = (writer(1, 1, 2, CLEAN, 3, CLEAN), writer(2, 1))
    outranked = (writer(2, 1, 2, CLEAN, 3, CLEAN), writer(1, 1))
    yield Configuration("3 versions, clean-up, late client", cleaning, 15_000, rounds=2)
    yield Configuration(
        "3 versions, clean-up, late client, split listings", cleaning, 78_000, rounds=2, keys_per_page=1
    )
    receipts = (_finishing(FileTrackerPublish, 1), READER)
    yield Configuration("2 versions, receipts, reader", receipts, 560, rounds=1)
    yield lost_end(FileTrackerPublish, opening(TRACKER))
    yield Configuration("3 versions, clean-up, late client, reader", (*cleaning, READER), 200_000, rounds=1)
    yield Configuration(
        "3 versions, clean-up, outranked client, reader", (*outranked, READER), 270_000, rounds=1
    )
    yield Configuration(
        "3 versions, clean-up, late client, reader, split listings",
        (*cleaning, READER),
        530_000,
        rounds=1,
        keys_per_page=1,
    )
    yield Configuration("3 versions, clean-up, late client, 1 fault", cleaning, 40_000, Faults(1), rounds=1)
    yield Configuration(
        "3 versions, clean-up, outranked client, 1 fault", outranked, 67_000, Faults(1), rounds=1
    )
    meanwhile = (writer(2, 1, 2, 3), writer(1, 1), CLEANER)
    yield Configuration("3 versions, outranked client, clean-up by another", meanwhile, 14_000, rounds=1)
    disordered = (
        Client("c2", (unordered(2, 1), unordered(2, 2), CLEAN)),
        Client("c1", (unordered(1, 1),)),
    )
    yield Configuration(
        "2 versions, clean-up, outranked client, listings without order",
        disordered,
        42_000,
        rounds=2,
        keys_per_page=1,
        listed_by=hints_first,
    )
    yield Configuration(
        "3 versions, clean-up, late client, reader, 2 rounds",
        (*cleaning, READER),
        1_500_000,
        rounds=2,
        deep=True,
    )
    yield Configuration(
        "3 versions, clean-up, outranked client, reader, split listings",
        (*outranked, READER),
        1_500_000,
        rounds=1,
        keys_per_page=1,
        deep=True,
    )
    yield Configuration(
        "3 versions, clean-up, late client, 1 fault, 2 rounds",
        cleaning,
        510_000,
        Faults(1),
        rounds=2,
        deep=True,
    )
    yield Configuration(
        "3 versions, outranked client, clean-up by another, 2 rounds", meanwhile, 70_000, rounds=2, deep=True
    )
    rival = (writer(1, 1, 2, CLEAN, 3, CLEAN), writer(2, 1, 2))
    yield Configuration("3 versions, clean-up, rival for 2 versions", rival, 270_000, rounds=2, deep=True)


def filetracker_unknown() -> Iterator[Configuration]:
    """A client that got no answer publishes the same record again under a fresh id."""
    one, other = resolving(FileTrackerPublish, 1), resolving(FileTrackerPublish, 2)
    rival, twice = writer(2, 1), resolving(FileTrackerPublish, 1, resolves=2)
    yield Configuration("resolve, 1 fault", (one, rival), 13_000, Faults(1), rounds=2)
    yield Configuration("resolve, 2 faults", (one, rival), 120_000, Faults(2), rounds=2, deep=True)
    refusals = Faults(2, refuse=True)
    yield Configuration("resolve by both, 2 faults, refusals", (one, other), 210_000, refusals, rounds=2)
    yield Configuration(
        "resolve, split listings, 1 fault", (one, rival), 120_000, Faults(1), rounds=2, keys_per_page=1
    )
    yield Configuration("resolve twice, 3 faults", (twice, rival), 1_300_000, Faults(3), rounds=2, deep=True)


def single_step(kind: type[Claim], scale: int) -> Iterator[Configuration]:
    """The strategies that decide with one atomic request. `scale`: one with more requests has more worlds."""
    fewer, faults, more = (Faults(budget, refuse=True) for budget in (1, 2, 3))
    log = (*(_finishing(kind, number) for number in (1, 2)), PLAIN_READER)
    resolvers = (resolving(kind, 1), resolving(kind, 2))
    yield Configuration("2 clients, 2 faults", rivals(kind, 2), 250 * scale, faults)
    yield lost_end(kind, opening(PLAIN))
    yield Configuration("3 clients, 2 faults", rivals(kind, 3), 1_800 * scale, faults)
    yield Configuration("3 clients, 3 faults", rivals(kind, 3), 6_800 * scale, more)
    yield Configuration("2 clients, 2 versions, reader, 1 fault", log, 30_000 * scale, fewer)
    yield Configuration("3 clients, 2 versions, 1 fault", rivals(kind, 3, (1, 2)), 2_900 * scale, fewer)
    yield Configuration("2 clients, resolve by both, 3 faults", resolvers, 1_000 * scale, more)


def _finishing(kind: type[Claim], number: int) -> Client:
    """A client that claims two versions and writes the receipts of those that it wins."""
    return Client(f"c{number}", tuple(WithReceipt(claim(kind, number, version)) for version in (1, 2)))


def _of(strategy: str, *sources: Iterator[Configuration]) -> Iterator[tuple[str, Configuration]]:
    for source in sources:
        for configuration in source:
            yield f"{strategy}: {configuration.name}", configuration


CONFIGURATIONS: dict[str, Configuration] = dict(
    (
        *_of("FileTracker", filetracker(), filetracker_log(), filetracker_unknown()),
        *_of("conditional", single_step(ConditionalPublish, scale=1)),
        *_of("rename", single_step(RenamePublish, scale=5)),
    )
)
"""What is explored, by name."""

ROW = "{:<75}{:>11}{:>12}{:>11}{:>9}\n"


def row(name: str, exploration: Exploration, seconds: float) -> str:
    found = "none" if exploration.complete else "cut short" if exploration.violation is None else "FOUND"
    return ROW.format(name, f"{exploration.worlds:,}", f"{exploration.steps:,}", found, f"{seconds:.1f}")


def report(name: str, configuration: Configuration) -> bool:
    """Explores one configuration and prints its row; returns whether everything was visited and held."""
    started = time.monotonic()
    exploration = configuration.explorer().explore()
    sys.stdout.write(row(name, exploration, time.monotonic() - started))
    if exploration.violation is not None:
        sys.stdout.write(f"{exploration.violation}\n")
    sys.stdout.flush()
    return exploration.complete and exploration.worlds >= configuration.worlds


def main(arguments: list[str] | None = None) -> int:
    """Prints the table. Returns 1 if a law was broken somewhere, or something was not visited."""
    parser = argparse.ArgumentParser(prog="python -m tests.exploration.report", description=__doc__)
    parser.add_argument("--deep", action="store_true", help="also those that take minutes")
    parser.add_argument("--only", default="", help="only configurations whose name contains this")
    chosen = parser.parse_args(arguments)
    sys.stdout.write(ROW.format("configuration", "worlds", "steps", "violations", "seconds"))
    held = [
        report(name, configuration)
        for name, configuration in CONFIGURATIONS.items()
        if chosen.only in name and (chosen.deep or not configuration.deep)
    ]
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main())
