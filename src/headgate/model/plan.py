"""A table service that was scheduled by a record and is neither complete nor cancelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from headgate.errors import CorruptLakeError
from headgate.model.identifiers import GENESIS, TxId, Version
from headgate.model.json_object import Json, JsonObject

Service: TypeAlias = Literal["compaction", "clustering"]

MAX_INPUTS = 1024
"""How many files a plan names. It stands in every checkpoint while it is pending, so it is bounded."""

_KNOWN_FIELDS = ("service", "table", "inputs", "paths", "version")


@dataclass(frozen=True, slots=True)
class PendingPlan:
    """What a table service is going to do.

    `txid` is that of the transaction that scheduled it, `table` the uuid of the table. `inputs` are marks
    (`model.footprint.file_mark`) of the files that it rewrites; None: too many to say, and then its virtual
    `paths` decide. `version` is the one that scheduled it; 0 before that is known.
    """

    txid: TxId
    service: Service
    table: str
    inputs: frozenset[str] | None
    paths: frozenset[str]
    version: Version = GENESIS
    unknown: Mapping[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """The plan without its transaction and version, which stand beside it."""
        return {
            **self.unknown,
            "service": self.service,
            "table": self.table,
            "inputs": None if self.inputs is None else [*sorted(self.inputs)],
            "paths": [*sorted(self.paths)],
        }

    @classmethod
    def from_json(cls, source: JsonObject, txid: TxId, version: Version) -> PendingPlan:
        return cls(
            txid=txid,
            service=_service(source),
            table=source.text("table"),
            inputs=None if source.fields.get("inputs") is None else frozenset(source.texts("inputs")),
            paths=frozenset(source.texts("paths")),
            version=version,
            unknown=source.unknown(*_KNOWN_FIELDS),
        )


def _service(source: JsonObject) -> Service:
    match source.text("service"):
        case "compaction":
            return "compaction"
        case "clustering":
            return "clustering"
        case other:
            raise CorruptLakeError(f"{source.origin}: {other[:80]!r} is not a table service")
