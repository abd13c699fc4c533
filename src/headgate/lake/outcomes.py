"""What becomes of other transactions: cancelling one, and resolving an unknown outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headgate.errors import InvalidInputError, StorageError, shown
from headgate.model.identifiers import TxId, is_txid
from headgate.model.record import Record
from headgate.model.state import LakeState
from headgate.transaction.conflicts import TransactionConflictError
from headgate.transaction.handle import LakeHandle
from headgate.transaction.result import CommitResult, Resolution


def cancel(lake: LakeHandle, txid: str, args: Sequence[str]) -> CommitResult:
    """See `Lake.cancel`."""
    wanted, newest = _txid(txid), lake.refresh()
    if wanted not in newest.plans:
        _refuse_ended(lake, wanted, newest)
    result = lake.run(args, lambda tx: tx.cancel(wanted), newest)
    try:
        lake.announcements.retire(wanted)
    except StorageError as error:
        left = f"removing the announcement: {error.problem}"
        return replace(result, postponed=(*result.postponed, left))
    return result


def resolve(lake: LakeHandle, txid: str) -> Resolution:
    """See `Lake.resolve`."""
    wanted, newest = _txid(txid), lake.refresh()
    # Search the whole log: a wrong answer would be final.
    found = _committed(lake, wanted, newest)
    if found is not None:
        return Resolution(txid, found.version.number)
    if wanted in newest.cancelled:
        return Resolution(txid, None)
    try:
        done = lake.run((), lambda tx: tx.cancel(wanted), newest)
    except TransactionConflictError as error:
        committed = [c.other for c in error.conflicts if c.other.txid.text == txid]
        if not committed:
            raise
        return Resolution(txid, committed[0].version.number)
    return Resolution(txid, None, done.version, done.hook_failures)


def _refuse_ended(lake: LakeHandle, txid: TxId, newest: LakeState) -> None:
    committed = _committed(lake, txid, newest)
    if committed is not None:
        raise InvalidInputError(
            f"{txid} was committed as version {committed.version} and has nothing pending",
            "you can undo a commit only by committing another change",
        )
    if txid in newest.cancelled:
        raise InvalidInputError(f"{txid} was cancelled by version {newest.cancelled[txid]}", "nothing to do")


def _committed(lake: LakeHandle, txid: TxId, newest: LakeState) -> Record | None:
    """The record of a transaction, if it is in the log."""
    records = lake.log.records_down(newest, newest.version.number)
    return next((record for record in records if record.txid == txid), None)


def _txid(text: str) -> TxId:
    if not isinstance(text, str) or not is_txid(text):
        raise InvalidInputError(f"{shown(text)} is not a transaction id", "take it from the error or the log")
    return TxId(text)
