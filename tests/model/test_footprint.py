"""Footprints in records: bounded, read as they were written, and old ones taken for the worst."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import CorruptLakeError
from headgate.model.footprint import (
    MAX_FILES,
    MAX_KEY_BYTES,
    MAX_PARTITIONS,
    MAX_POSITION_FILES,
    FileFootprint,
    Upserted,
    below_table,
    file_mark,
    shared_partitions,
)
from headgate.model.identifiers import is_key
from headgate.model.json_object import Json, JsonObject, encode

values = (
    st.none() | st.integers() | st.text(max_size=5) | st.binary(max_size=5) | st.decimals(allow_nan=False)
)
partitions = st.frozensets(st.tuples(st.integers(0, 3), st.tuples(values)), max_size=4)
paths = st.frozensets(st.text(max_size=10), max_size=4)
upserts = st.none() | st.builds(
    Upserted,
    st.none() | partitions,
    st.dictionaries(st.integers(1, 9), st.tuples(values, values), max_size=2),
)


position_files = st.text(max_size=5).map(lambda name: f"data/L0-{name}").filter(is_key)


def again(footprint: FileFootprint) -> FileFootprint:
    return read(footprint.to_json())


def read(fields: dict[str, Json]) -> FileFootprint:
    return FileFootprint.from_json(JsonObject.parse(encode(fields), "here"))


@given(partitions, paths, paths, paths, paths, paths, upserts, st.lists(position_files, max_size=3))
def test_a_written_footprint_is_read_again(
    added: frozenset[Any],
    removed: frozenset[str],
    rewritten: frozenset[str],
    compacted: frozenset[str],
    deleted: frozenset[str],
    updated: frozenset[str],
    upserted: Upserted | None,
    positions: list[str],
) -> None:
    footprint = FileFootprint.of(
        added,
        removed,
        rewritten=rewritten,
        compacted=compacted,
        deleted=deleted,
        updated=updated,
        upserted=upserted,
        positions=positions,
    )
    assert again(footprint) == footprint


def test_each_part_is_left_out_as_a_whole_beyond_its_bound() -> None:
    many = [str(number) for number in range(MAX_FILES + 1)]
    large = FileFootprint.of(
        [(0, (n,)) for n in range(MAX_PARTITIONS + 1)],
        many,
        rewritten=many,
        compacted=many,
        deleted=many,
        updated=many,
        positions=many[: MAX_POSITION_FILES + 1],
    )
    assert large == FileFootprint(None, None, None, None, None, None, None, None)
    assert again(large) == large
    keys = Upserted.of(
        [(0, (n,)) for n in range(MAX_PARTITIONS + 1)], {1: ("a", "z" * MAX_KEY_BYTES), 2: (1, 2)}
    )
    assert keys == Upserted(None, {2: (1, 2)})


def test_nothing_is_written_for_nothing() -> None:
    assert FileFootprint().to_json() == {}
    assert FileFootprint.of([(0, (1,))]).to_json() == {"added": [[0, 1]]}


def test_what_was_removed_before_rewritten_files_were_told_apart_can_be_either() -> None:
    mark = file_mark("x")
    either = frozenset({mark})
    assert read({"removed": [mark]}) == FileFootprint(removed=either, rewritten=either, overwritten=either)
    assert read({"removed": [mark], "rewritten": []}) == FileFootprint(removed=either, overwritten=either)
    assert read({"removed": None}) == FileFootprint(removed=None, rewritten=None, overwritten=None)
    assert read({"added": [[0, 1]]}) == FileFootprint(added=frozenset({(0, (1,))}))
    only_removed = FileFootprint.of((), ["x"])
    assert only_removed.to_json() == {"removed": [mark], "overwritten": [], "rewritten": []}
    assert again(only_removed).rewritten == frozenset()


@pytest.mark.parametrize(
    "fields",
    [
        {"added": 1},
        {"added": [["x"]]},
        {"rewritten": "x"},
        {"deleted": [1]},
        {"upserted": {"partitions": [[0]]}},
        {"upserted": {"partitions": 5, "bounds": {}}},
        {"upserted": {"partitions": None, "bounds": {"x": [1, 2]}}},
        {"upserted": {"partitions": None, "bounds": {"1": [1]}}},
        {"upserted": {"partitions": None, "bounds": {"1": [1, {"strange": 1}]}}},
        {"positions": {}},
    ],
)
def test_what_is_no_footprint_is_named(fields: dict[str, Json]) -> None:
    with pytest.raises(CorruptLakeError, match="here"):
        read(fields)


def test_partitions_are_the_same_whether_they_were_stored_or_not() -> None:
    nan = float("nan")
    ours = [(0, (nan,)), (0, (b"\xff",)), (0, (Decimal("1.50"),)), (1, (1,)), (0, (1,))]
    stored = again(FileFootprint.of([*ours[:4], (0, (7,))])).added
    assert stored is not None
    assert shared_partitions(ours, stored) == frozenset(ours[:4])


def test_marks_are_the_same_under_every_root() -> None:
    inside = "data/L0-0123456789abcdef0123456789abcdef/01234567/day=data%2FL0-/x.parquet"
    roots = ("file:///lake/data/a/b", "s3://data/L0-odd/data/L1-7/data/a/b", "memory://x/data/a/b")
    assert {below_table(f"{root}/{inside}") for root in roots} == {inside}
    assert len({file_mark(f"{root}/{inside}") for root in roots}) == 1
    assert below_table(inside) == inside
    assert below_table("anything") == "anything"
    footprint = FileFootprint.of((), positions=[f"{roots[0]}/{inside}"])
    assert footprint.positions == (inside,)
