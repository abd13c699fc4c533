"""Counts of paths as they are read from a record: what is as it should be quickly, all else as before."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.errors import CorruptLakeError
from headgate.model.identifiers import MAX_NUMBER
from headgate.model.json_object import JsonObject
from headgate.model.table import PathChange, path_changes


def read(counts: Any) -> dict[str, PathChange]:
    return path_changes(JsonObject({"paths": {"/a": {"files_added": 1}, "/b": counts}}, "a record"), "paths")


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({}, PathChange()),
        ({"rows_added": 7, "bytes_removed": MAX_NUMBER}, PathChange(rows_added=7, bytes_removed=MAX_NUMBER)),
        ({"rows_added": None}, PathChange()),
        # Of a later release: passed over.
        ({"rows_added": 7, "rows_moved": 3}, PathChange(rows_added=7)),
        ({"rows_moved": "many"}, PathChange()),
    ],
    ids=str,
)
def test_counts(counts: dict[str, Any], expected: PathChange) -> None:
    assert read(counts) == {"/a": PathChange(files_added=1), "/b": expected}


@pytest.mark.parametrize(
    "counts",
    [
        {"rows_added": -1},
        {"rows_added": True},
        {"rows_added": 1.0},
        {"rows_added": "1"},
        {"rows_added": [1]},
        {"rows_added": MAX_NUMBER + 1},
        {"rows_added": 7, "files_added": -1},
        [],
        None,
        7,
    ],
    ids=str,
)
def test_what_is_none_is_refused_with_its_place(counts: Any) -> None:
    with pytest.raises(CorruptLakeError, match="a record, field 'paths'"):
        read(counts)


def test_a_record_without_paths_has_none() -> None:
    assert path_changes(JsonObject({}, "a record"), "paths") == {}
