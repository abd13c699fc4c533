"""Names of objects in the log, one class per layout. Numbers are padded, so key order is number order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headgate.model.identifiers import TxId, Version, is_txid, padded, unpadded

LOG = "control/log/"
CHECKPOINTS = "control/checkpoint/"
LAST_CHECKPOINT = f"{CHECKPOINTS}last.json"
TIMELINE = "control/timeline/"
ENTRIES = "control/txn/"
RECOVERED = f"{ENTRIES}recovered.json"
OUTBOX = "control/outbox/"
IDENTITY = "headgate.json"
REPLICA = "control/replica.json"
SWEPT = "control/swept.json"
"""The newest expire whose files are all deleted."""


def checkpoint_key(version: Version) -> str:
    return f"{CHECKPOINTS}{version.padded()}.json"


def checkpoint_version(key: str) -> Version | None:
    return _number_between(key, CHECKPOINTS, ".json")


def entry_key(version: Version) -> str:
    """The steward's entry of a version."""
    return f"{ENTRIES}{version.padded()}.json"


def entry_version(key: str) -> Version | None:
    return _number_between(key, ENTRIES, ".json")


def outbox_key(version: Version) -> str:
    """What says that hooks of a version are not done."""
    return f"{OUTBOX}{version.padded()}.json"


def outbox_version(key: str) -> Version | None:
    return _number_between(key, OUTBOX, ".json")


def announcement_key(txid: TxId) -> str:
    return f"{TIMELINE}{txid}.json"


def announced_txid(key: str) -> TxId | None:
    """The transaction that a key below `TIMELINE` announces; None for other keys."""
    text = key.removeprefix(TIMELINE).removesuffix(".json")
    return TxId(text) if is_txid(text) and key == announcement_key(TxId(text)) else None


class RecordLayout(Protocol):
    """Where records lie, and which listing tells that they exist."""

    @property
    def index(self) -> str:
        """The prefix whose keys announce versions."""
        ...

    def record_key(self, version: Version) -> str: ...

    def index_key(self, version: Version) -> str: ...

    def indexed_version(self, key: str) -> Version | None:
        """The version that an index key announces; None for other keys."""
        ...


@dataclass(frozen=True, slots=True)
class PlainLayout:
    """One object per version: used by the strategies that decide with a single atomic step."""

    index: str = LOG

    def record_key(self, version: Version) -> str:
        return f"{LOG}{version.padded()}.json"

    index_key = record_key

    def indexed_version(self, key: str) -> Version | None:
        return _number_between(key, LOG, ".json")

    def temporary_key(self, version: Version, claimant: TxId) -> str:
        # The version is part of the name: a late write meant for one version must not end up in another.
        return f"{LOG}.{claimant}-{version.padded()}.tmp"


@dataclass(frozen=True, order=True, slots=True)
class Ballot:
    """An attempt at a version, ordered by sub-version, then by client."""

    round: int
    client: TxId


@dataclass(frozen=True, slots=True)
class Prepare:
    """Somebody announced a ballot."""

    ballot: Ballot


@dataclass(frozen=True, slots=True)
class Accept:
    """Somebody proposed a record under a ballot."""

    ballot: Ballot


@dataclass(frozen=True, slots=True)
class DecidedHint:
    """The decided record is there."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Somebody gave up a sub-version: advice to start above it."""

    round: int


@dataclass(frozen=True, slots=True)
class TrackerLayout:
    """FileTracker's: a directory of attempts per version, the decided record beside them, and markers."""

    index: str = f"{LOG}tracker/"

    def record_key(self, version: Version) -> str:
        return f"{self.hints(version)}COMMIT-HINT.txt"

    def index_key(self, version: Version) -> str:
        return f"{self.index}{version.padded()}.txt"

    def indexed_version(self, key: str) -> Version | None:
        return _number_between(key, self.index, ".txt")

    def attempts(self, version: Version) -> str:
        return f"{LOG}commit/{version.padded()}/"

    def hints(self, version: Version) -> str:
        # Sorts behind all attempts, which start with a digit: a listing in key order sees it last.
        return f"{self.attempts(version)}sub-hint/"

    def prepare_key(self, version: Version, ballot: Ballot) -> str:
        return f"{self.attempts(version)}{padded(ballot.round)}/PRE_COMMIT-{ballot.client}.txt"

    def accept_key(self, version: Version, ballot: Ballot) -> str:
        return f"{self.attempts(version)}{padded(ballot.round)}/{ballot.client}.txt"

    def expired_key(self, version: Version, round_: int) -> str:
        return f"{self.attempts(version)}{padded(round_)}/EXPIRED-HINT.txt"

    def sub_tracker_key(self, version: Version, round_: int) -> str:
        return f"{self.attempts(version)}sub-tracker/{padded(round_)}.txt"

    def archive_key(self, version: Version) -> str:
        return f"{LOG}archive/{version.padded()}.txt"

    def entry(self, version: Version, key: str) -> Prepare | Accept | DecidedHint | GivenUp | None:
        """What a key below `attempts(version)` says; None for one that says nothing."""
        if key == self.record_key(version):
            return DecidedHint()
        directory, _, name = key.removeprefix(self.attempts(version)).partition("/")
        if directory == "sub-tracker":
            given_up = unpadded(name.removesuffix(".txt"))
            return None if given_up is None else GivenUp(given_up)
        round_ = unpadded(directory)
        if round_ is None:
            return None
        if name == "EXPIRED-HINT.txt":
            return GivenUp(round_)
        client = name.removesuffix(".txt")
        if is_txid(client.removeprefix("PRE_COMMIT-")) and name.endswith(".txt"):
            ballot = Ballot(round_, TxId(client.removeprefix("PRE_COMMIT-")))
            return Prepare(ballot) if client.startswith("PRE_COMMIT-") else Accept(ballot)
        return None


PLAIN = PlainLayout()
TRACKER = TrackerLayout()


def _number_between(key: str, start: str, end: str) -> Version | None:
    if not (key.startswith(start) and key.endswith(end)):
        return None
    number = unpadded(key[len(start) : -len(end)])
    return None if number is None else Version(number)
