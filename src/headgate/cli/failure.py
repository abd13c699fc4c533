"""Turns errors into messages and exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from headgate.cli.output import visible
from headgate.cli.streams import INTERRUPTED
from headgate.errors import (
    CommitUnknownError,
    ConflictError,
    HeadgateError,
    InvalidInputError,
    UnknownOutcomeNote,
)

REFUSED, USAGE, CONFLICT, UNKNOWN = 1, 2, 3, 4


def exit_code(error: HeadgateError) -> int:
    """0 is success, 1 rejected or failed, 2 wrong usage, 3 a conflict, 4 an unknown outcome."""
    match error:
        case ConflictError():
            return CONFLICT
        case CommitUnknownError():
            return UNKNOWN
        case InvalidInputError():
            return USAGE
        case _:
            return REFUSED


@contextmanager
def reported(*, as_json: bool) -> Iterator[None]:
    """Ends the program with a message and the right exit code when the block fails."""
    try:
        yield
    except HeadgateError as error:
        sys.stderr.write(error_json(error) if as_json else f"headgate: {_lines(str(error))}\n")
        raise SystemExit(exit_code(error)) from error
    except KeyboardInterrupt as interrupt:
        # A transaction that was committed, or may have been, has attached a note that says so.
        notes: list[str] = getattr(interrupt, "__notes__", [])
        said = "; ".join(notes) or "nothing that was not yet committed is visible"
        sys.stderr.write(f"\nheadgate: interrupted; {_lines(said)}\n")
        unknown = any(isinstance(note, UnknownOutcomeNote) for note in notes)
        raise SystemExit(UNKNOWN if unknown else INTERRUPTED) from interrupt


def _lines(text: str) -> str:
    return "\n".join(map(visible, text.split("\n")))


def error_json(error: HeadgateError) -> str:
    fields: dict[str, str | int] = {
        "kind": error.kind,
        "problem": error.problem,
        "next_step": error.next_step,
    }
    if isinstance(error, CommitUnknownError):
        fields |= {"version": error.version, "txid": error.txid}
    return json.dumps({"error": fields}) + "\n"
