"""Predicates for the conflict rules: evaluated on partitions, and on files that other writers added."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headgate.core.conflict.evidence import EVERY_ROW, Selection
from headgate.iceberg.format.data_file import DataFile
from headgate.iceberg.format.metadata import TableMetadata
from headgate.iceberg.predicate.bound import Always, Bound, Field, fields_of
from headgate.iceberg.predicate.pruning import Pruning, column_with_id


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A data file of another version, with the table as that version left it."""

    file: DataFile
    metadata: TableMetadata


@dataclass(frozen=True)
class Selected:
    """A `Selection`: the rows that a predicate selects, bound to the table in `metadata`."""

    bound: Bound
    metadata: TableMetadata

    def partition(self, spec_id: int, values: tuple[Any, ...]) -> bool:
        # A spec that was added later may contain anything.
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
    """The selection of a predicate; every row if there is none, or if it is always true."""
    return EVERY_ROW if bound is None or bound == Always(True) else Selected(bound, metadata)


def _is_same(field: Field, metadata: TableMetadata) -> bool:
    """Whether a column still has the type that the predicate was bound to: bounds are written by type."""
    found = column_with_id(metadata.schema, field.field_id)
    return found is not None and found.field_type == field.type
