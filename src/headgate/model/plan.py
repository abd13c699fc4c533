"""A table service that was scheduled by a record and is neither complete nor cancelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from headgate.errors import CorruptLakeError, InvalidInputError, shown
from headgate.model.identifiers import GENESIS, TxId, Version
from headgate.model.json_object import Json, JsonObject

Service: TypeAlias = Literal["compaction", "clustering"]

MAX_INPUTS = 1024
"""How many files a plan names. Every checkpoint contains the plan while it is pending, so it is bounded."""

_KNOWN_FIELDS = ("service", "table", "inputs", "paths", "version")


@dataclass(frozen=True, slots=True)
class PendingPlan:
    """What a table service is going to do.

    `txid` is that of the transaction that scheduled it, `table` the uuid of the table. `inputs` are marks
    (`model.footprint.file_mark`) of the files that it rewrites; None if there are too many to list, and then
    its virtual `paths` decide. `version` is the one that scheduled it; 0 before that is known.
    """

    txid: TxId
    service: Service
    table: str
    inputs: frozenset[str] | None
    paths: frozenset[str]
    version: Version = GENESIS
    unknown: Mapping[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """The plan without its transaction and version, which are stored next to it."""
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


def service_named(given: object) -> Service:
    """The table service with this name, as a caller gave it."""
    match given:
        case "compaction" | "clustering":
            return given
        case _:
            raise InvalidInputError(f"{shown(given)} is not a table service", "give compaction or clustering")


def _service(source: JsonObject) -> Service:
    try:
        return service_named(source.text("service"))
    except InvalidInputError as error:
        raise CorruptLakeError(f"{source.origin}: {error.problem}") from error
