"""The steward's entry of a version, `control/txn/<version>.json`: what was done, and what followed from it.

Derived: `descriptor` repeats what the record says, so that an entry that is lost is made again. What only the
entry knows is what became of the hooks, how long things took, and whether somebody else had to write it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from headgate.errors import CorruptLakeError, UnsupportedError
from headgate.model.identifiers import TxId, Version, is_txid
from headgate.model.json_object import Json, JsonObject, encode

ENTRY_FORMAT = 1


class HookState(Enum):
    """What became of a hook for one version. The value is what stands on storage."""

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    """Given up by somebody: nobody runs it any more, and what comes after it does not wait."""

    @property
    def is_over(self) -> bool:
        return self in (HookState.DONE, HookState.SKIPPED)


@dataclass(frozen=True, slots=True)
class HookRun:
    """A hook that is due for a version, and how far it came. `attempts` counts over all runs."""

    name: str
    state: HookState = HookState.PENDING
    attempts: int = 0
    seconds: float = 0.0
    error: str | None = None

    def to_json(self) -> dict[str, Json]:
        fields: dict[str, Json] = {
            "state": self.state.value,
            "attempts": self.attempts,
            "seconds": round(self.seconds, 6),
        }
        return fields if self.error is None else {**fields, "error": self.error}

    @classmethod
    def from_json(cls, name: str, source: JsonObject) -> HookRun:
        state = source.text("state")
        if state not in {known.value for known in HookState}:
            raise CorruptLakeError(f"{source.origin}: {state[:80]!r} is not the state of a hook")
        seconds = source.fields.get("seconds")
        return cls(
            name,
            HookState(state),
            source.number("attempts"),
            float(seconds) if isinstance(seconds, int | float) else 0.0,
            source.optional_text("error"),
        )


@dataclass(frozen=True, slots=True)
class ControlEntry:
    """What the steward keeps of a version.

    `record` is the digest of the record, `descriptor` what `core.descriptor` makes of it. `hooks` are those
    that were due, in the order in which they run. `timings` are seconds by what took them. `recovered`: the
    writer of the version died before it wrote the entry, and somebody else did.
    """

    version: Version
    txid: TxId
    record: str
    descriptor: Mapping[str, Json]
    hooks: tuple[HookRun, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    recovered: bool = False

    @property
    def open_hooks(self) -> tuple[HookRun, ...]:
        """The hooks that are not done."""
        return tuple(hook for hook in self.hooks if not hook.state.is_over)

    def encode(self) -> bytes:
        fields: dict[str, Json] = {
            "format": ENTRY_FORMAT,
            "version": self.version.number,
            "txid": self.txid.text,
            "record": self.record,
            "descriptor": dict(self.descriptor),
            "hooks": [{"name": hook.name, **hook.to_json()} for hook in self.hooks],
            "timings": {name: round(seconds, 6) for name, seconds in self.timings.items()},
            "recovered": self.recovered,
        }
        return encode(fields)

    @classmethod
    def decode(cls, data: bytes, version: Version, origin: str) -> ControlEntry:
        """The entry in `data`; `CorruptLakeError` unless it is the one of `version`."""
        source = JsonObject.parse(data, f"the control entry of version {version} ({origin})")
        if source.number("format") > ENTRY_FORMAT:
            raise UnsupportedError(
                f"{source.origin} is of format {source.number('format')}; "
                f"this release reads formats up to {ENTRY_FORMAT}",
                "upgrade headgate",
            )
        if source.number("version") != version.number:
            raise CorruptLakeError(f"{source.origin} says it is of version {source.number('version')}")
        txid = source.text("txid")
        if not is_txid(txid):
            raise CorruptLakeError(f"{source.origin}: {txid[:80]!r} is not a transaction id")
        timings = source.object("timings")
        return cls(
            version=version,
            txid=TxId(txid),
            record=source.text("record"),
            descriptor=source.object("descriptor").fields,
            hooks=tuple(HookRun.from_json(hook.text("name"), hook) for hook in source.objects("hooks")),
            timings={
                name: float(value) for name, value in timings.fields.items() if isinstance(value, int | float)
            },
            recovered=source.fields.get("recovered") is True,
        )
