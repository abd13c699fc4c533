"""Names of objects in the log, one class per layout. Numbers are padded, so key order is number order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headgate.model.identifiers import TxId, Version, is_txid, padded, unpadded
from headgate.storage.requests import Get, ListPage

LOG = "control/log/"
CHECKPOINTS = "control/checkpoint/"
LAST_CHECKPOINT = f"{CHECKPOINTS}last.json"
TIMELINE = "control/timeline/"
ENTRIES = "control/txn/"
RECOVERED = f"{ENTRIES}recovered.json"
OUTBOX = "control/outbox/"
ASIDE = "control/aside/"
"""What a repair has cut out of the log. Nothing reads it."""
IDENTITY = "headgate.json"
REPLICA = "control/replica.json"
SWEPT = "control/swept.json"
"""The newest expire whose files are all deleted."""
COMPACTED = "control/compacted.json"
"""The mark of a compaction that left nothing to do."""


def checkpoint_key(version: Version) -> str:
    return f"{CHECKPOINTS}{version.padded()}.json"


def checkpoint_version(key: str) -> Version | None:
    return _number_between(key, CHECKPOINTS, ".json")


def entry_key(version: Version) -> str:
    """The steward's entry of a version."""
    return f"{ENTRIES}{version.padded()}.json"


def entry_version(key: str) -> Version | None:
    return _number_between(key, ENTRIES, ".json")


def aside_key(version: Version, fingerprint: str) -> str:
    """Where a repair keeps what it cut out of the log: a record or a control entry, named by its content."""
    return f"{ASIDE}{version.padded()}-{fingerprint.rpartition(':')[2]}.json"


def outbox_key(version: Version) -> str:
    """The object that says that hooks of a version are not done."""
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
    """Where records are stored, and which listing shows that they exist."""

    @property
    def index(self) -> str:
        """The prefix whose keys announce versions."""
        ...

    def record_key(self, version: Version) -> str: ...

    def index_key(self, version: Version) -> str: ...

    def indexed_version(self, key: str) -> Version | None:
        """The version that an index key announces; None for other keys."""
        ...

    def signs_beyond(self, head: Version, looks: int) -> tuple[Get | ListPage, ...]:
        """The requests that find signs of the next `looks` versions after `head`, all to be sent at once.

        A GET for each version of its control entry, which exists only if the version was decided; and with
        FileTracker one listing of the markers, which shows all versions above `head`.
        """
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

    def signs_beyond(self, head: Version, looks: int) -> tuple[Get | ListPage, ...]:
        return _entries_beyond(head, looks)

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
    """A client announced a ballot."""

    ballot: Ballot


@dataclass(frozen=True, slots=True)
class Accept:
    """A client proposed a record under a ballot."""

    ballot: Ballot


@dataclass(frozen=True, slots=True)
class DecidedHint:
    """The decided record is there."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A client gave up a sub-version: a hint to start above it."""

    round: int


@dataclass(frozen=True, slots=True)
class TrackerLayout:
    """The layout of FileTracker: per version a directory of attempts and the decided record, and markers."""

    index: str = f"{LOG}tracker/"

    def record_key(self, version: Version) -> str:
        return f"{self.hints(version)}COMMIT-HINT.txt"

    def index_key(self, version: Version) -> str:
        return f"{self.index}{version.padded()}.txt"

    def indexed_version(self, key: str) -> Version | None:
        return _number_between(key, self.index, ".txt")

    def signs_beyond(self, head: Version, looks: int) -> tuple[Get | ListPage, ...]:
        # Clean-up keeps the markers few. The entries, too: an accident that deletes records below
        # `control/log/` easily deletes the markers, which lie there as well.
        return (ListPage(self.index, self.index_key(head)), *_entries_beyond(head, looks))

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

    def holds_record(self, version: Version, key: str) -> bool:
        """Whether a key below `attempts(version)` is that of a proposed or decided record."""
        return isinstance(self.entry(version, key), Accept | DecidedHint)

    def entry(self, version: Version, key: str) -> Prepare | Accept | DecidedHint | GivenUp | None:
        """The meaning of a key below `attempts(version)`; None if it has none."""
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


def _entries_beyond(head: Version, looks: int) -> tuple[Get, ...]:
    # Not a listing: on a disk it would read the names of all entries that there ever were.
    versions = (Version(head.number + distance) for distance in range(1, looks + 1))
    return tuple(Get(entry_key(version)) for version in versions)


def record_version(key: str) -> Version | None:
    """The version whose record a key below `LOG` would be, in any layout; None for other keys."""
    plain = PLAIN.indexed_version(key)
    if plain is not None:
        return plain
    version = attempted_version(key)
    return version if version is not None and key == TRACKER.record_key(version) else None


def attempted_version(key: str) -> Version | None:
    """The version that an object of FileTracker is an attempt at, or the record of."""
    number = unpadded(key.removeprefix(f"{LOG}commit/").partition("/")[0])
    return None if number is None or not key.startswith(f"{LOG}commit/") else Version(number)


def _number_between(key: str, start: str, end: str) -> Version | None:
    if not (key.startswith(start) and key.endswith(end)):
        return None
    number = unpadded(key[len(start) : -len(end)])
    return None if number is None else Version(number)
