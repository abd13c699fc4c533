"""Reads and overwrites by predicate against a plain evaluator, on random tables of every partitioning."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.iceberg.predicate.binding import bind_text
from headgate.iceberg.scan.planning import plan
from headgate.lake.table import Table
from headgate.storage.memory import MemoryStore
from tests.examples import examples
from tests.iceberg.predicates import PARTITIONINGS, PREDICATES, SCHEMA, Example, Row, comparable, rows, table

SLOW = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=examples(60))


EXAMPLES = st.lists(PREDICATES, max_size=6)


def made(partition_by: tuple[str, ...], appended: list[list[Row]]) -> Table:
    lake = hg.Lake.init(MemoryStore("predicates"), strategy="conditional", divisor=4)
    made = lake.create_table("a.b", SCHEMA, partition_by=partition_by)
    for part in appended:
        made.append(table(part))
    return made


def matching(example: Example, given: list[Row]) -> list[Row]:
    return [row for row in given if example.truth(row) is True]


@SLOW
@given(st.sampled_from(PARTITIONINGS), st.lists(rows(), min_size=1, max_size=3), EXAMPLES)
def test_a_read_with_a_predicate_is_all_rows_filtered(
    partition_by: tuple[str, ...], appended: list[list[Row]], examples: list[Example]
) -> None:
    made_table = made(partition_by, appended)
    everything = [row for part in appended for row in part]
    assert comparable(made_table.read_arrow().to_pylist()) == comparable(everything)
    for example in examples:
        found = made_table.read_arrow(where=example.text)
        assert comparable(found.to_pylist()) == comparable(matching(example, everything)), example


@SLOW
@given(
    st.sampled_from(PARTITIONINGS),
    st.lists(rows(1, 4), min_size=1, max_size=3),
    EXAMPLES,
)
def test_a_file_that_is_said_to_match_as_a_whole_does(
    partition_by: tuple[str, ...], appended: list[list[Row]], examples: list[Example]
) -> None:
    made_table = made(partition_by, appended)
    view = made_table._view()
    for example in examples:
        found = plan(view.loader, view.metadata, bind_text(example.text, view.metadata.schema))
        for planned in found.files:
            if planned.all_match:
                only = made_table.read_arrow(where=example.text).num_rows
                assert planned.file.record_count <= only
        whole = sum(planned.file.record_count for planned in found.whole)
        assert whole <= len(matching(example, [row for part in appended for row in part])), example


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("partition_by", [[], ["f"]])
def test_infinities_are_found(kind: str, partition_by: list[str]) -> None:
    made_table = hg.Lake.init(MemoryStore()).create_table("a.b", f"f {kind}", partition_by=partition_by)
    values = [float("-inf"), 0.0, float("inf"), None]
    made_table.append(pa.table({"f": pa.array(values, pa.float32() if kind == "FLOAT" else pa.float64())}))
    for value in ("-inf", "inf"):
        found = made_table.read_arrow(where=f"f = '{value}'").to_pylist()
        assert found == [{"f": float(value)}], value
    assert made_table.read_arrow(where="f < 'inf'").num_rows == 2


@SLOW
@given(st.sampled_from(PARTITIONINGS), st.lists(rows(1), min_size=1, max_size=3), PREDICATES, rows())
def test_an_overwrite_with_a_predicate_replaces_exactly_the_rows_that_match(
    partition_by: tuple[str, ...], appended: list[list[Row]], example: Example, new: list[Row]
) -> None:
    made_table = made(partition_by, appended)
    everything = [row for part in appended for row in part]
    fitting = matching(example, new)
    made_table.overwrite(table(fitting), where=example.text)
    stays = [row for row in everything if example.truth(row) is not True]
    assert comparable(made_table.read_arrow().to_pylist()) == comparable([*stays, *fitting]), example


@SLOW
@given(st.sampled_from(PARTITIONINGS), st.lists(rows(1), min_size=1, max_size=2), rows(1), PREDICATES)
def test_inside_a_transaction_an_overwrite_sees_what_came_before(
    partition_by: tuple[str, ...], appended: list[list[Row]], own: list[Row], example: Example
) -> None:
    made_table = made(partition_by, appended)
    with made_table._lake.transaction() as tx:
        tx.table("a.b").append(table(own))
        tx.table("a.b").overwrite(table([]), where=example.text)
    everything = [row for part in appended for row in part] + own
    stays = [row for row in everything if example.truth(row) is not True]
    assert comparable(made_table.read_arrow().to_pylist()) == comparable(stays), example


@pytest.mark.parametrize(
    "where", ["bucket(2, s) != 0", "truncate(1, s) = 'a'", "true", "s IS NULL OR bucket(2, s) = 1"]
)
def test_own_rows_of_a_transaction_are_chosen_by_any_predicate(where: str) -> None:
    made_table = hg.Lake.init(MemoryStore()).create_table("a.b", "s STRING")
    texts = ["", "a", "ab", None]
    chosen = made_table._lake.create_table("a.c", "s STRING")
    chosen.append(pa.table({"s": texts}))
    gone = chosen.read_arrow(where=where).column("s").to_pylist()
    with made_table._lake.transaction() as tx:
        tx.table("a.b").append(pa.table({"s": texts}))
        tx.table("a.b").delete(where)
    assert made_table.read_arrow().column("s").to_pylist() == [text for text in texts if text not in gone]
