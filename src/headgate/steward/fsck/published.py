"""Published metadata that contradicts the log: `v<N>.metadata.json` of versions that were lost.

A file of a version that the log does not have shows that the log was once longer. A file of a version that
the log has, with other content, shows that another transaction had its number before. The next commit of the
table to that number would find the file, and report that it was committed twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headgate.log.driver import Driver
from headgate.model.identifiers import GENESIS, TABLES, Version
from headgate.model.state import LakeState
from headgate.model.table import TableRef
from headgate.steward.publishing import hint_key, publish, published_key, version_of

VERSIONS_COMPARED = 100
"""Of how many of the newest versions the content of published metadata is compared with the log."""
_ATTEMPT = re.compile(r".+/attempts/[0-9]{20}-[0-9a-f]{32}\.metadata\.json")
_PUBLISHED = re.compile(r"(.+)/metadata/v([0-9]{1,18})\.metadata\.json")


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """The published metadata of a version of the table at a location."""

    location: str
    version: Version

    @property
    def key(self) -> str:
        return published_key(self.location, self.version)


def by_version(file: PublishedFile) -> tuple[Version, str]:
    """The order in which files were published."""
    return file.version, file.location


def published_in(keys: Iterable[str]) -> list[PublishedFile]:
    """The published metadata among the keys of a lake."""
    found = filter(None, map(_PUBLISHED.fullmatch, keys))
    return [PublishedFile(one[1], Version(int(one[2]))) for one in found]


def beyond(files: Iterable[PublishedFile], state: LakeState) -> list[PublishedFile]:
    """The files of versions that the tables do not have: above that of their table, or above the newest."""
    newest = {ref.location: version_of(ref) for ref in state.tables.values()}
    return [file for file in files if file.version > newest.get(file.location, state.version)]


@dataclass(frozen=True, slots=True)
class PublishedFiles:
    """The published metadata of one lake. Writers must be stopped."""

    driver: Driver
    files: tuple[PublishedFile, ...]
    attempts: tuple[str, ...]
    """The keys of the metadata that attempts at versions wrote. What was published is a copy of one."""

    @classmethod
    def read(cls, driver: Driver) -> PublishedFiles:
        keys = driver.keys(TABLES)
        return cls(driver, tuple(published_in(keys)), tuple(filter(_ATTEMPT.fullmatch, keys)))

    def newest(self) -> Version:
        """The newest version of which metadata was published; zero if none was."""
        return max((file.version for file in self.files), default=GENESIS)

    def transaction_of(self, version: Version) -> str | None:
        """The transaction whose metadata was published for a version."""
        for file in self.files:
            if file.version == version:
                data = self.driver.get(file.key)
                start = f"{file.location}/attempts/{version.padded()}-"
                mine = (key for key in self.attempts if key.startswith(start))
                for key in mine:
                    if self.driver.get(key) == data:
                        return key.removeprefix(start).partition(".")[0]
        return None

    def stale(self, state: LakeState, recent: Sequence[LakeState]) -> list[str]:
        """The keys of files that contradict the log, which ends at `state`."""
        wrong = [file.key for file in beyond(self.files, state)]
        return sorted({*wrong, *self._differing(state, recent)})

    def announce(self, state: LakeState) -> None:
        """Makes the hints of all tables name what the log says, so that engines leave what was lost."""
        for ref in state.tables.values():
            metadata = self.driver.get(ref.metadata)
            hint = self.driver.get(hint_key(ref.location))
            if metadata is None or hint == str(version_of(ref)).encode():
                continue  # without its metadata, the table has another damage, which fsck reports
            self._publish(ref, metadata)

    def clear(self, state: LakeState, recent: Sequence[LakeState]) -> list[str]:
        """Removes the files that contradict the log, or replaces them; returns their keys. Idempotent."""
        right = self._differing(state, recent)
        stale = self.stale(state, recent)
        for key in stale:
            if key in right:
                self.driver.put(key, right[key])
            else:
                self.driver.delete(key)
        return stale

    def _publish(self, ref: TableRef, metadata: bytes) -> None:
        publish(self.driver, ref, newest=lambda: ref, metadata=lambda _: metadata)

    def _differing(self, state: LakeState, recent: Sequence[LakeState]) -> dict[str, bytes]:
        """The files whose content is not that of their version, with the right content."""
        there = {file.key for file in self.files}
        found = {}
        for key, original in _originals(state, recent).items():
            right = self.driver.get(original) if key in there else None
            if right is not None and self.driver.get(key) not in (None, right):
                found[key] = right
        return found


def _originals(state: LakeState, recent: Sequence[LakeState]) -> Mapping[str, str]:
    """The keys of published metadata of the newest versions, each with that of its original."""
    return {
        published_key(ref.location, version_of(ref)): ref.metadata
        for known in (*recent[-VERSIONS_COMPARED:], state)
        for ref in _made_at(known, state)
    }


def _made_at(known: LakeState, newest: LakeState) -> Iterator[TableRef]:
    for ref in known.tables.values():
        if known is newest or version_of(ref) == known.version:
            yield ref
