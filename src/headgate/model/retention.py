"""What a lake still keeps of its earlier versions after some have expired."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate.errors import CorruptLakeError
from headgate.model.identifiers import GENESIS, Version
from headgate.model.json_object import Json, JsonObject

_KNOWN_FIELDS = ("until", "boundaries", "versions", "files", "by")


@dataclass(frozen=True, slots=True)
class Retention:
    """Which versions can be read, and from which files. It only ever shrinks: an expired version never comes
    back.

    All versions above `until` are kept. Of those up to it: boundaries, each level from a version on
    (`boundaries`: pairs of a level and the first version), and `versions`, those that tags name. `files` are
    the versions of snapshots up to `until`, by the uuid of their table, whose files are kept; other kept
    versions follow from the files of the next one above. `by` is the version whose record said all this.

    Its size grows with what is kept, not with what was: one number for each snapshot that no newer one
    covers.
    """

    until: int = 0
    boundaries: tuple[tuple[int, int], ...] = ()
    versions: frozenset[int] = frozenset()
    files: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    by: Version = GENESIS
    unknown: Mapping[str, Json] = field(default_factory=dict)

    def keeps(self, version: int, divisor: int) -> bool:
        """Whether a version can be read. Version 0, which is empty, always can."""
        if version > self.until or version in self.versions or version == 0:
            return True
        return any(version >= since and version % divisor**level == 0 for level, since in self.boundaries)

    def to_json(self) -> dict[str, Json]:
        """Without the version whose record contains it."""
        return {
            **self.unknown,
            "until": self.until,
            "boundaries": [[level, since] for level, since in self.boundaries],
            "versions": [*sorted(self.versions)],
            "files": {uuid: [*sorted(numbers)] for uuid, numbers in sorted(self.files.items())},
        }

    @classmethod
    def from_json(cls, source: JsonObject, by: Version) -> Retention:
        files = source.object("files")
        return cls(
            until=source.number("until"),
            boundaries=tuple(_pair(pair, source) for pair in _list(source, "boundaries")),
            versions=frozenset(source.numbers("versions")),
            files={uuid: files.numbers(uuid) for uuid in files.fields},
            by=by,
            unknown=source.unknown(*_KNOWN_FIELDS),
        )


EVERYTHING = Retention()
"""Nothing has expired."""


def _list(source: JsonObject, name: str) -> list[Json]:
    found = source.fields.get(name)
    if not isinstance(found, list):
        raise CorruptLakeError(f"{source.origin}: field {name!r} must be a list")
    return found


def _pair(value: Json, source: JsonObject) -> tuple[int, int]:
    match value:
        case [int() as level, int() as since] if level >= 1 and since >= 0:
            return level, since
    raise CorruptLakeError(f"{source.origin}: {str(value)[:80]} is not a pair of a level and a version")
