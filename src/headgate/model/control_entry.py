"""The steward's entry of a version, `control/txn/<version>.json`: what was done, and what followed from it.

Entries are derived: `descriptor` repeats what the record says, so that a lost entry can be rebuilt. Only the
entry itself knows the state of hooks, how long things took, and whether another process had to write it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from headgate.errors import CorruptLakeError, UnsupportedError
from headgate.model.identifiers import MAX_NUMBER, TxId, Version, is_txid
from headgate.model.json_object import Json, JsonObject, encode

ENTRY_FORMAT = 1
KNOWN_FIELDS = (
    "format",
    "version",
    "txid",
    "record",
    "descriptor",
    "hooks",
    "timings",
    "recovered",
    "copy",
    "failures",
    "unknown_outcomes",
)


class HookState(Enum):
    """The state of a hook for one version. The value is stored."""

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    """Given up by hand: nobody runs it any more, and the hooks after it do not wait for it."""

    @property
    def is_over(self) -> bool:
        return self in (HookState.DONE, HookState.SKIPPED)


@dataclass(frozen=True, slots=True)
class UndoRun:
    """The undo of a hook that succeeded, and its progress."""

    state: HookState = HookState.PENDING
    attempts: int = 0
    error: str | None = None

    def to_json(self) -> dict[str, Json]:
        fields: dict[str, Json] = {"state": self.state.value, "attempts": self.attempts}
        return fields if self.error is None else {**fields, "error": self.error}

    @classmethod
    def from_json(cls, source: JsonObject) -> UndoRun:
        return cls(_state(source), source.number("attempts"), source.optional_text("error"))


@dataclass(frozen=True, slots=True)
class HookRun:
    """A hook of a version, and its progress. `attempts` counts over all runs.

    `undo` is set if the hook succeeded and another, required one then failed permanently.
    """

    name: str
    state: HookState = HookState.PENDING
    attempts: int = 0
    seconds: float = 0.0
    error: str | None = None
    undo: UndoRun | None = None
    unknown: Mapping[str, Json] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether the hook, or its undo, is not done."""
        return not self.state.is_over or (self.undo is not None and not self.undo.state.is_over)

    @property
    def is_in_effect(self) -> bool:
        """Whether the hooks after it can rely on it, or need not wait for it any more."""
        return self.state.is_over and self.undo is None

    @property
    def shown_state(self) -> str:
        """The state in words, including that of the undo."""
        if self.undo is None:
            return self.state.value
        return "undone" if self.undo.state is HookState.DONE else f"undo {self.undo.state.value}"

    @property
    def problem(self) -> str | None:
        """Why the hook is not in effect; None if it is."""
        if self.undo is None:
            return self.error
        return self.shown_state if self.undo.error is None else f"{self.shown_state}: {self.undo.error}"

    def to_json(self) -> dict[str, Json]:
        fields: dict[str, Json] = {
            **self.unknown,
            "state": self.state.value,
            "attempts": self.attempts,
            "seconds": round(self.seconds, 6),
        }
        if self.error is not None:
            fields["error"] = self.error
        # Beside the state, which earlier releases read: to them the hook is done.
        return fields if self.undo is None else {**fields, "undo": self.undo.to_json()}

    @classmethod
    def from_json(cls, name: str, source: JsonObject) -> HookRun:
        undo = source.optional_object("undo")
        return cls(
            name,
            _state(source),
            source.number("attempts"),
            _seconds(source.fields.get("seconds")) or 0.0,
            source.optional_text("error"),
            None if undo is None else UndoRun.from_json(undo),
            source.unknown("name", "state", "attempts", "seconds", "error", "undo"),
        )


def _seconds(value: Json) -> float | None:
    """A duration; None if it is none that we would write."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= MAX_NUMBER else None


def _state(source: JsonObject) -> HookState:
    state = source.text("state")
    if state not in {known.value for known in HookState}:
        raise CorruptLakeError(f"{source.origin}: {state[:80]!r} is not the state of a hook")
    return HookState(state)


@dataclass(frozen=True, slots=True)
class FailedCommits:
    """Commits that failed with an error, by its kind, and how many have an unknown outcome."""

    failures: Mapping[str, int] = field(default_factory=dict)
    unknown_outcomes: int = 0

    def __add__(self, other: FailedCommits) -> FailedCommits:
        kinds = {*self.failures, *other.failures}
        return FailedCommits(
            {kind: self.failures.get(kind, 0) + other.failures.get(kind, 0) for kind in sorted(kinds)},
            self.unknown_outcomes + other.unknown_outcomes,
        )

    @classmethod
    def from_json(cls, source: JsonObject) -> FailedCommits:
        """Those that a control entry names; absent fields are none."""
        failures = source.optional_object("failures")
        return cls(
            {} if failures is None else {kind: failures.number(kind) for kind in failures.fields},
            source.number("unknown_outcomes") if source.fields.get("unknown_outcomes") is not None else 0,
        )


NONE_FAILED = FailedCommits()


@dataclass(frozen=True, slots=True)
class ControlEntry:
    """What the steward stores about a version.

    `record` is the digest of the record, `descriptor` the result of `core.history.descriptor` for it. `hooks`
    are the hooks of the version, in the order in which they run. `timings` are seconds by phase. `recovered`:
    the writer of the version died before it wrote the entry, and another process wrote it. `copy` is the
    record itself, unless it is long: a lost record is rebuilt from it. `failed` are the commits that failed
    through the same handle since the entry that it wrote before: they have no version of their own. `unknown`
    are fields of later releases, which are kept when an entry is written again.
    """

    version: Version
    txid: TxId
    record: str
    descriptor: Mapping[str, Json]
    hooks: tuple[HookRun, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    recovered: bool = False
    copy: str | None = None
    failed: FailedCommits = NONE_FAILED
    unknown: Mapping[str, Json] = field(default_factory=dict)

    @property
    def open_hooks(self) -> tuple[HookRun, ...]:
        """The hooks that are not done, or not undone although they must be."""
        return tuple(hook for hook in self.hooks if hook.is_open)

    def encode(self) -> bytes:
        fields: dict[str, Json] = {
            **self.unknown,
            "format": ENTRY_FORMAT,
            "version": self.version.number,
            "txid": self.txid.text,
            "record": self.record,
            "descriptor": dict(self.descriptor),
            "hooks": [{"name": hook.name, **hook.to_json()} for hook in self.hooks],
            "timings": {name: round(seconds, 6) for name, seconds in self.timings.items()},
            "recovered": self.recovered,
        }
        if self.copy is not None:
            fields["copy"] = self.copy
        if self.failed.failures:
            fields["failures"] = dict(self.failed.failures)
        if self.failed.unknown_outcomes:
            fields["unknown_outcomes"] = self.failed.unknown_outcomes
        return encode(fields)

    @classmethod
    def decode(cls, data: bytes, version: Version, origin: str) -> ControlEntry:
        """The entry in `data`; `CorruptLakeError` unless it is the one of `version`."""
        source = JsonObject.parse(data, f"the control entry of version {version} ({origin})")
        if source.number("format") > ENTRY_FORMAT:
            raise UnsupportedError(
                f"{source.origin} has format {source.number('format')}; "
                f"this release reads formats up to {ENTRY_FORMAT}",
                "upgrade headgate",
            )
        if source.number("version") != version.number:
            raise CorruptLakeError(
                f"{source.origin} contains the entry of version {source.number('version')}"
            )
        txid = source.text("txid")
        if not is_txid(txid):
            raise CorruptLakeError(f"{source.origin}: {txid[:80]!r} is not a transaction id")
        timings = {name: _seconds(value) for name, value in source.object("timings").fields.items()}
        return cls(
            version=version,
            txid=TxId(txid),
            record=source.text("record"),
            descriptor=source.object("descriptor").fields,
            hooks=tuple(HookRun.from_json(hook.text("name"), hook) for hook in source.objects("hooks")),
            timings={name: seconds for name, seconds in timings.items() if seconds is not None},
            recovered=source.fields.get("recovered") is True,
            copy=source.optional_text("copy"),
            failed=FailedCommits.from_json(source),
            unknown=source.unknown(*KNOWN_FIELDS),
        )
