"""The event that hooks get for a commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate.model.json_object import Json, encode


@dataclass(frozen=True, slots=True)
class CommitEvent:
    """A commit, as a hook gets it. `id` is the same each time the hook runs for it.

    `tables` has for each table its name, what was done to it, and the URI of its metadata; `paths` says what
    was added and removed at each virtual path; `descriptor` says who committed it, and when.
    """

    id: str
    lake_id: str
    place: str
    version: int
    txid: str
    kind: str
    descriptor: Mapping[str, Json] = field(default_factory=dict)
    tables: tuple[Mapping[str, Json], ...] = ()
    paths: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        return {
            "id": self.id,
            "lake_id": self.lake_id,
            "place": self.place,
            "version": self.version,
            "txid": self.txid,
            "kind": self.kind,
            "descriptor": dict(self.descriptor),
            "tables": [dict(table) for table in self.tables],
            "paths": {path: dict(change) for path, change in self.paths.items()},
        }

    def encode(self) -> bytes:
        """The event as one line of JSON, without a line break at the end."""
        return encode(self.to_json())
