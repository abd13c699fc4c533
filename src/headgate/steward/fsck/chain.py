"""Finds the records that a damaged log should have: the longest chain that what is left of it makes.

Of a version, its record can be left, the copy of it in its control entry, and with FileTracker a proposal.
Usually they are the same. They differ where the log had lost its end, and a writer that did not know it
committed another transaction under a lost number. Of two chains, the longer one is right: it is what the
other writers went on with. Of two that are equally long, the one in the control entries is: an entry is the
receipt of a transaction whose writer got a success, while the writer of the other one got an error, since it
found this entry.

Sends only GET and LIST requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headgate.core.history.fold import follow
from headgate.errors import CorruptLakeError, UnsupportedError
from headgate.log.checkpoints import list_checkpoints
from headgate.log.driver import Driver
from headgate.log.head import RECORDS_AT_ONCE, Chain, FollowLog, NotFound
from headgate.log.layout import (
    PLAIN,
    TRACKER,
    Accept,
    Ballot,
    RecordLayout,
    TrackerLayout,
    checkpoint_key,
    entry_key,
)
from headgate.log.strategy import layout_named
from headgate.model.identifiers import Version
from headgate.model.json_object import digest
from headgate.model.record import Record
from headgate.model.state import LakeState
from headgate.steward.control import ControlEntries

STATES_KEPT = 1_000
"""How many of the newest states are kept: the chains differ in the last few versions, if at all."""


@dataclass(frozen=True, slots=True)
class Link:
    """A version of the chain: its record, with its bytes, and the states before and after it."""

    before: LakeState
    record: Record
    data: bytes
    after: LakeState
    earlier: Link | None = None


@dataclass(frozen=True, slots=True)
class Remains:
    """The longest chain: it ends at `end`.

    `links` are its last versions: those of which something else than their records was looked at. `holes` are
    versions that nothing can rebuild, below a checkpoint from which the log goes on. `recent` are the newest
    states.
    """

    end: LakeState
    links: tuple[Link, ...]
    holes: tuple[Version, ...]
    recent: tuple[LakeState, ...]


def surviving_chain(driver: Driver, genesis: LakeState) -> Remains:
    """The longest chain of records that begins at `genesis`, or at a checkpoint if some are lost for good."""
    return _Search(driver, genesis).run()


@dataclass(frozen=True, slots=True)
class _Search:
    driver: Driver
    genesis: LakeState

    def run(self) -> Remains:
        start: LakeState | None = self.genesis
        links: list[Link] = []
        holes: list[Version] = []
        states: list[LakeState] = []
        while start is not None:  # each time from a higher checkpoint
            agreed = self._read_agreed(start)
            found = self._longest(agreed[-1])
            links += found
            states = [*agreed, *(link.after for link in found)]
            start = self._bridge(states[-1].version)
            if start is not None:
                holes += self._holes(states[-1], start.version)
        return Remains(states[-1], tuple(links), tuple(holes), tuple(states[-STATES_KEPT:]))

    # --- the records of the log ---------------------------------------------------------------------------

    def _read_agreed(self, start: LakeState) -> list[LakeState]:
        """The states from `start` on, up to the last version that its control entry does not contradict."""
        states = self._follow(start)
        entries = ControlEntries(self.driver)
        while len(states) > 1:
            entry = entries.read(states[-1].version)
            if entry is None or entry.record == states[-1].digest:
                break
            states.pop()
        return list(states)

    def _follow(self, start: LakeState) -> deque[LakeState]:
        """The states from `start` to the first record that is missing or does not follow."""
        states = deque([start], maxlen=STATES_KEPT)

        def after(state: LakeState, data: bytes) -> LakeState:
            key = layout_named(state.next_strategy).record_key(state.version.next())
            states.append(follow(state, data, key)[1])
            return states[-1]

        chain = Chain(lambda state: state.version, lambda state: layout_named(state.next_strategy), after)
        try:
            result = self.driver.run(FollowLog(start, chain, RECORDS_AT_ONCE))
        except CorruptLakeError:
            return states
        if isinstance(result, NotFound):
            raise result.error
        return states

    # --- what else is left --------------------------------------------------------------------------------

    def _longest(self, base: LakeState) -> list[Link]:
        """The longest chain on top of `base`; of several, the one that control entries show."""
        best: Link | None = None
        ends = [*self._next(base, None)]
        while ends:
            best = ends[0]
            ends = [link for end in ends for link in self._next(end.after, end)]
        links = []
        while best is not None:
            links.append(best)
            best = best.earlier
        return links[::-1]

    def _next(self, state: LakeState, earlier: Link | None) -> Iterator[Link]:
        """Every record that follows `state`, in order of preference."""
        found = [
            link
            for data in dict.fromkeys((*self._copies(state.version.next()), *self._records(state)))
            if (link := self._link(state, data, earlier)) is not None
        ]
        if found:
            yield from found
            return
        proposed = self._read_proposal(state)
        link = None if proposed is None else self._link(state, proposed, earlier)
        if link is not None:
            yield link

    def _link(self, state: LakeState, data: bytes, earlier: Link | None) -> Link | None:
        try:
            record, after = follow(state, data, entry_key(state.version.next()))
        except CorruptLakeError:
            return None
        return Link(state, record, data, after, earlier)

    def _copies(self, version: Version) -> Iterator[bytes]:
        entry = ControlEntries(self.driver).read(version)
        if entry is not None and entry.copy is not None and digest(entry.copy.encode()) == entry.record:
            yield entry.copy.encode()

    def _records(self, state: LakeState) -> Iterator[bytes]:
        data = self.driver.get(layout_named(state.next_strategy).record_key(state.version.next()))
        if data is not None:
            yield data

    def _read_proposal(self, state: LakeState) -> bytes | None:
        """The proposal with the highest ballot: if any proposal was decided, it is this one."""
        ballots = proposals(self.driver, layout_named(state.next_strategy), state.version.next())
        key = max(ballots, key=ballots.__getitem__, default=None)
        return None if key is None else self.driver.get(key)

    # --- losses that a checkpoint covers ------------------------------------------------------------------

    def _bridge(self, above: Version) -> LakeState | None:
        """The newest checkpoint above a version whose record is there: opening begins at it."""
        for version in sorted(list_checkpoints(self.driver, above=above), reverse=True):
            state = checkpoint_at(self.driver, version)
            if state is None or state.identity != self.genesis.identity:
                continue
            if any(digest(data) == state.digest for _, data in records_of(self.driver, version)):
                return state
        return None

    def _holes(self, top: LakeState, bridge: Version) -> list[Version]:
        """The versions below a bridge whose records are gone, or do not belong to it."""
        between = [Version(number) for number in range(top.version.number + 1, bridge.number)]
        gone = [one for one in between if not records_of(self.driver, one)]
        return gone or [top.version if self._is_other(top) else top.version.next()]

    def _is_other(self, top: LakeState) -> bool:
        """Whether the record after `top` is whole and follows another one: then `top` is the wrong one."""
        version = top.version.next()
        for key, data in records_of(self.driver, version):
            try:
                return Record.decode(data, version, key).previous != top.digest
            except CorruptLakeError:
                continue
        return False


def checkpoint_at(driver: Driver, version: Version) -> LakeState | None:
    """The state in the checkpoint of a version; None if there is none that this release can read."""
    key = checkpoint_key(version)
    data = driver.get(key)
    try:
        return None if data is None else LakeState.decode(data, version, key)
    except (CorruptLakeError, UnsupportedError):
        return None


def records_of(driver: Driver, version: Version) -> list[tuple[str, bytes]]:
    """Every object that could be the record of a version, with its key."""
    keys = [layout.record_key(version) for layout in (PLAIN, TRACKER)]
    return [(key, data) for key, data in zip(keys, map(driver.get, keys), strict=True) if data is not None]


def attempts_at(driver: Driver, layout: RecordLayout, version: Version) -> list[str]:
    """The remaining objects of FileTracker attempts at a version, without its decided record."""
    if not isinstance(layout, TrackerLayout):
        return []
    keys: Iterable[str] = driver.keys(layout.attempts(version))
    return [key for key in keys if layout.entry(version, key) and key != layout.record_key(version)]


def proposals(driver: Driver, layout: RecordLayout, version: Version) -> dict[str, Ballot]:
    """The proposals of FileTracker clients for a version, with their ballots."""
    entries = ((key, TRACKER.entry(version, key)) for key in attempts_at(driver, layout, version))
    return {key: entry.ballot for key, entry in entries if isinstance(entry, Accept)}
