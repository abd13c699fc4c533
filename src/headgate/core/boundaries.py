"""Whether the files of a later snapshot still tell what a table was at a version.

Compaction keeps the versions that its files are of apart at boundaries, and every row delete has the version
that made it. So a version can be read from files of later ones: those that end at or before it, without the
deletes after it. That is exact unless a file holds rows from before and after the version, or rows left the
files in another way.
"""

from __future__ import annotations

from dataclasses import dataclass

from headgate.model.window import Window


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the live files of a snapshot can tell of earlier versions of their table.

    `since` is the oldest version from which on rows left the files only by position deletes and compaction;
    `windows` are the versions that the data files are of.
    """

    since: int
    windows: frozenset[Window]

    def tells(self, version: int) -> bool:
        """Whether the table at `version`, which is not above the snapshot, is exact from its files."""
        return self.since <= version and not any(window.straddles(version) for window in self.windows)
