"""Predicates as the conflict rules ask them: of partitions, and of files that other writers added."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headgate.core.evidence import EVERY_ROW, Selection
from headgate.iceberg.bound import Always, Bound, Field, fields_of
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.pruning import Pruning


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A data file of another version, with the table as that version left it."""

    file: DataFile
    metadata: TableMetadata


@dataclass(frozen=True)
class Selected:
    """A `Selection`: the rows that a predicate selects, which was bound to a table as `metadata` has it."""

    bound: Bound
    metadata: TableMetadata

    def partition(self, spec_id: int, values: tuple[Any, ...]) -> bool:
        # A spec that came later may hold anything.
        return spec_id not in self.metadata.specs or self._pruning.partition_could_match(spec_id, values)

    def file(self, file: object) -> bool:
        assert isinstance(file, AddedFile), file
        if not all(_is_same(field, file.metadata) for field in fields_of(self.bound)):
            return True
        if file.file.spec_id not in self.metadata.specs:
            return Pruning(self.bound, file.metadata.schema, file.metadata.specs).could_match(file.file)
        return self._pruning.could_match(file.file)

    @cached_property
    def _pruning(self) -> Pruning:
        return Pruning(self.bound, self.metadata.schema, self.metadata.specs)


def selection_of(bound: Bound | None, metadata: TableMetadata) -> Selection:
    """The selection of a predicate; of every row, if there is none or it always holds."""
    return EVERY_ROW if bound is None or bound == Always(True) else Selected(bound, metadata)


def _is_same(field: Field, metadata: TableMetadata) -> bool:
    """Whether a column still has the type that the predicate was bound to: bounds are written by type."""
    found = metadata.schema._lazy_id_to_field.get(field.field_id)
    return found is not None and found.field_type == field.type
