"""What a process reports when a log has lost its last records. `log/head.py` and `log/log.py` notice it."""

from __future__ import annotations

from typing import Self

from headgate.errors import CorruptLakeError
from headgate.model.identifiers import Version
from headgate.model.json_object import digest

REPAIR = (
    "stop writing to this lake; restore control/log/ from a backup, or run `headgate fsck`, which says "
    "what is lost, and `headgate fsck --repair`, which rebuilds what it can"
)
REOPEN = (
    "open the lake again: a repair, or restoring a backup, has put another transaction there; "
    "headgate log shows which transactions are in the lake"
)


class LostEndError(CorruptLakeError):
    """Versions that were committed are no longer in the log, and nothing above them is.

    `sign` is the object that contradicts a commit, with the digest of its content, if there is one.
    """

    sign: tuple[str, str] | None = None

    def shown_by(self, key: str, content: bytes | None) -> Self:
        """This error, with the object that shows it."""
        self.sign = None if content is None else (key, digest(content))
        return self


def committed_twice(place: str, version: Version, key: str, content: bytes | None) -> LostEndError:
    """The error if the object `key` is of another transaction than the one just committed as `version`.

    The handle had not read the log since, so it could not know that the log had once been longer. The commit
    is decided nevertheless, so the text must keep the caller from repeating it.
    """
    return LostEndError(
        f"{place}: this transaction was committed as version {version}, and its changes are in the lake: do "
        f"not run it again. But {key} shows that another one was committed as version {version} before: the "
        "log had lost its end",
        "do not retry. Stop writing to this lake, and run `headgate fsck --repair`; only if it says that "
        "this transaction was set aside or given up, run the work again",
    ).shown_by(key, content)


def lost_end(place: str, head: Version, version: Version, sign: str) -> LostEndError:
    gone = f"version {version} is" if version == head.next() else f"versions {head.next()} to {version} are"
    return LostEndError(
        f"{place}: the log ends at version {head}, but {sign} shows that version {version} was committed: "
        f"the end of the log is lost, and {gone} gone",
        REPAIR,
    )
