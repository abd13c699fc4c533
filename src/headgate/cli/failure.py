"""From errors to what a person reads and a shell tests."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from headgate.errors import CommitUnknownError, ConflictError, HeadgateError

REFUSED, USAGE, CONFLICT, UNKNOWN, INTERRUPTED = 1, 2, 3, 4, 130


def exit_code(error: HeadgateError) -> int:
    """0 is success, 1 refused or failed, 2 wrong usage, 3 a conflict, 4 an unknown outcome."""
    if isinstance(error, ConflictError):
        return CONFLICT
    return UNKNOWN if isinstance(error, CommitUnknownError) else REFUSED


@contextmanager
def reported(*, as_json: bool) -> Iterator[None]:
    """Ends the program with a clear message and the right code when the block fails."""
    try:
        yield
    except HeadgateError as error:
        sys.stderr.write(_as_json(error) if as_json else f"headgate: {error}\n")
        raise SystemExit(exit_code(error)) from error
    except KeyboardInterrupt as interrupt:
        sys.stderr.write("\nheadgate: interrupted; what was not yet committed is not visible to anybody\n")
        raise SystemExit(INTERRUPTED) from interrupt
    except BrokenPipeError:
        # The reader of our output went away, as `head` does. Nothing is left to be said to it.
        sys.stderr.close()
        raise SystemExit(0) from None


def _as_json(error: HeadgateError) -> str:
    fields = {"kind": error.kind, "problem": error.problem, "next_step": error.next_step}
    if isinstance(error, CommitUnknownError):
        fields |= {"version": str(error.version), "txid": error.txid}
    return json.dumps({"error": fields}) + "\n"
