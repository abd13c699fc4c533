"""The digest chain: each record names the bytes of the one before it, so no record can change unnoticed."""

from __future__ import annotations

from headgate.core.fold import apply
from headgate.errors import CorruptLakeError
from headgate.model.record import Record
from headgate.model.state import LakeState


def follow(state: LakeState, data: bytes, origin: str) -> tuple[Record, LakeState]:
    """The record in `data` and the state after it; `CorruptLakeError` if it does not follow `state`."""
    record = Record.decode(data, state.version.next(), origin)
    if record.previous != state.digest:
        raise CorruptLakeError(
            f"the record of version {record.version} ({origin}) follows a record with digest "
            f"{record.previous}, but that of version {state.version} is {state.digest}",
            f"one of the two objects was changed after it was written; compare versions {state.version} "
            f"and {record.version} with a backup",
        )
    return record, apply(state, record, data)
