"""Other engines read what we wrote, row for row: every type, every transform, and after every evolution."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import StaticTable

import headgate as hg
from headgate.lake.table import Table
from headgate.log.layout import PLAIN
from headgate.model.identifiers import Version
from headgate.storage.location import open_store
from headgate.storage.requests import Create, Request
from headgate.testing.faulty import Fault, faulty, refuse
from tests.iceberg.peers import ask_clickhouse, ask_duckdb, ask_pyiceberg
from tests.maintenance.aging import AgingHost, Clock
from tests.row_deletes import delete_rows

pytestmark = pytest.mark.slow

ONE = {"a": 1, "b": {"c": "x"}}
TYPES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "INT": [1, -5],
    "BIGINT": [2**40, -1],
    "FLOAT": [1.5, math.nan],
    "DOUBLE": [-0.5, math.inf],
    "DECIMAL(5, 2)": [Decimal("1.25"), Decimal("-99.99")],
    "DECIMAL(15, 4)": [Decimal("1.2500"), Decimal("-99.9900")],
    "DECIMAL(38, 10)": [Decimal("1.2500000000"), Decimal("-12345678901234567890.5000000000")],
    "DATE": [dt.date(2026, 1, 2), dt.date(1969, 12, 31)],
    "TIME": [dt.time(1, 2, 3, 4), dt.time(23, 59)],
    "TIMESTAMP_NTZ": [dt.datetime(2026, 1, 2, 3), dt.datetime(1969, 12, 31, 23, 59, 59, 5)],
    "TIMESTAMP": [dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC), dt.datetime(1960, 1, 1, tzinfo=dt.UTC)],
    "STRING": ["a", "ü/=% ", ""],
    "BINARY": [b"a", b"\x00\xff"],
    "FIXED(4)": [b"abcd", b"\x00\x00\x00\xff"],
    "UUID": [uuid.UUID(int=5), uuid.UUID(int=2**127 + 1)],
    "STRUCT<a: INT, b: STRUCT<c: STRING>>": [ONE, {"a": None, "b": None}],
    "ARRAY<BIGINT>": [[1, None], []],
    "MAP<STRING, DOUBLE>": [[("a", 1.0), ("b", None)], []],
    "ARRAY<STRUCT<k: MAP<INT, ARRAY<STRING>>>>": [[{"k": [(1, ["x", None])]}, None], []],
}
TRANSFORMS: dict[str, list[str]] = {
    "v": [name for name in TYPES if "<" not in name],
    "bucket(4, v)": [
        name for name in TYPES if "<" not in name and name not in ("BOOLEAN", "FLOAT", "DOUBLE")
    ],
    "truncate(2, v)": ["INT", "BIGINT", "DECIMAL(5, 2)", "DECIMAL(38, 10)", "STRING", "BINARY"],
    "year(v)": ["DATE", "TIMESTAMP_NTZ", "TIMESTAMP"],
    "month(v)": ["DATE", "TIMESTAMP_NTZ", "TIMESTAMP"],
    "day(v)": ["DATE", "TIMESTAMP_NTZ", "TIMESTAMP"],
    "hour(v)": ["TIMESTAMP_NTZ", "TIMESTAMP"],
}


def plain(value: Any) -> Any:
    """A value that compares across engines: maps as pairs, moments as UTC, NaN as a word."""
    match value:
        case float() if math.isnan(value):
            return "NaN"
        case dt.datetime() if value.tzinfo is not None:
            return value.astimezone(dt.UTC).replace(tzinfo=None)
        case dict() as fields:
            return {str(key): plain(item) for key, item in fields.items()}
        case [(_, _), *_] as pairs if all(isinstance(pair, tuple) for pair in pairs):
            return {str(key): plain(item) for key, item in pairs}
        case list() as items:
            return [plain(item) for item in items]
    return value


def ordered(rows: list[Any]) -> list[Any]:
    return [plain(value) for _, value in sorted(rows, key=lambda row: int(row[0]))]


class Place:
    """A lake on a disk, where other engines find its tables."""

    def __init__(self, root: Path) -> None:
        self.lake = hg.Lake.init(root, divisor=4)
        self._root = root

    def directory(self, table: Table) -> Path:
        return self._root / "data" / Path(*table.name.split("."))

    def metadata_file(self, table: Table, version: int | None = None) -> str:
        return str(self.directory(table) / "metadata" / f"v{version or self.lake.version}.metadata.json")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("lake"))


def filled(place: Place, kind: str, partition_by: list[str], name: str) -> tuple[Table, list[Any]]:
    values = [*TYPES[kind], None]
    table = place.lake.create_table(
        f"types.{name}", f"n INT NOT NULL, v {kind}", partition_by=partition_by, sort_by=["n desc"]
    )
    column = schema_to_pyarrow(table.schema, include_field_ids=False).field("v").type
    numbers = pa.array(range(len(values)), pa.int32())
    table.append(pa.table({"n": numbers, "v": pa.array(values, column)}))
    return table, [plain(value) for value in values]


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_with_nulls(place: Place, kind: str) -> None:
    table, expected = filled(place, kind, [], f"plain{list(TYPES).index(kind)}")
    read = table.read_arrow()
    assert ordered(list(zip(read["n"].to_pylist(), read["v"].to_pylist(), strict=True))) == expected
    duckdb = ordered(ask_duckdb(place.directory(table), "n, v"))
    assert duckdb == [{} if want == {} else want for want in expected] or duckdb == as_maps(expected)
    told = [(row["n"], row["v"]) for row in ask_pyiceberg(place.metadata_file(table))]
    if kind.startswith("ARRAY<STRUCT"):
        expected = [[] if value is None else value for value in expected]  # pyiceberg loses such nulls
    assert ordered(told) == expected


def as_maps(expected: list[Any]) -> list[Any]:
    """As DuckDB has them: an empty map, where a list of pairs is an empty list."""
    return [{} if value == [] else value for value in expected]


CLICKHOUSE = {
    "INT": "v",
    "BIGINT": "toInt64(v)",
    "BOOLEAN": "toUInt8(v)",
    "DECIMAL(15, 4)": "toString(v)",
    "DATE": "toString(v)",
    "STRING": "v",
    "UUID": "toString(v)",
    "TIMESTAMP_NTZ": "toUnixTimestamp64Micro(v)",
    "TIMESTAMP": "toUnixTimestamp64Micro(v)",
    "BINARY": "hex(v)",
    "FIXED(4)": "hex(v)",
}
"""What to ask so that the answer comes through JSON unharmed."""


def as_clickhouse_says(value: Any) -> Any:
    match value:
        case bool():
            return int(value)
        case Decimal():
            return f"{value.normalize():f}"
        case dt.datetime():
            at = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
            return str((at - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1))
        case dt.date() | uuid.UUID():
            return str(value)
        case bytes():
            return value.hex().upper()
    return value


@pytest.mark.parametrize("kind", CLICKHOUSE)
def test_types_in_clickhouse(place: Place, kind: str) -> None:
    table, _ = filled(place, kind, [], f"house{list(TYPES).index(kind)}")
    told = [value for _, value in sorted(ask_clickhouse(place.directory(table), f"n, {CLICKHOUSE[kind]}"))]
    expected = [as_clickhouse_says(value) for value in [*TYPES[kind], None]]
    assert [str(value) for value in told] == [str(value) for value in expected]


@pytest.mark.parametrize("term", TRANSFORMS)
def test_every_transform_of_every_type_with_nulls(place: Place, term: str) -> None:
    for kind in TRANSFORMS[term]:
        word = term.split("(")[0]
        table, expected = filled(place, kind, [term], f"{word}{list(TYPES).index(kind)}")
        assert len(table.files()) > 1
        read = table.read_arrow()
        assert ordered(list(zip(read["n"].to_pylist(), read["v"].to_pylist(), strict=True))) == expected
        assert ordered(ask_duckdb(place.directory(table), "n, v")) == expected, kind
        for row_filter in (None, "n >= 0"):
            told = ask_pyiceberg(place.metadata_file(table), row_filter)
            assert ordered([(row["n"], row["v"]) for row in told]) == expected, kind
        nulls = ask_pyiceberg(place.metadata_file(table), "v is null")
        assert [row["n"] for row in nulls] == [len(expected) - 1]


def test_transforms_in_clickhouse(place: Place) -> None:
    for term in TRANSFORMS:
        kind = "TIMESTAMP_NTZ" if "TIMESTAMP_NTZ" in TRANSFORMS[term] else "BIGINT"
        table, _ = filled(place, kind, [term], f"ch_{term.split('(')[0]}")
        assert [int(n) for (n,) in sorted(ask_clickhouse(place.directory(table), "n"))] == [0, 1, 2]
        ((found,),) = ask_clickhouse(place.directory(table), "countIf(v is null)")
        assert int(found) == 1


@pytest.mark.parametrize("partition_by", [[], ["v"], ["bucket(2, n)"]], ids=["plain", "identity", "bucket"])
def test_rows_deleted_by_position(place: Place, partition_by: list[str]) -> None:
    name = "deleted." + (partition_by or ["plain"])[0].split("(")[0]
    table = place.lake.create_table(name, "n INT NOT NULL, v STRING", partition_by=partition_by)
    kinds = ["a b/c%", "ü+日本", None]
    for start in (0, 30, 60):
        numbers = range(start, start + 30)
        values = {"n": pa.array(numbers, pa.int32()), "v": [kinds[number % 3] for number in numbers]}
        table.append(pa.table(values))
    before = place.lake.version
    kept = set(range(90))
    # Several delete files on one data file, across a boundary at which manifests are merged.
    for where, gone in (("n IN (0, 1, 2, 31)", {0, 1, 2, 31}), ("n < 6", set(range(6))), ("n = 89", {89})):
        delete_rows(place.lake, name, where)
        kept -= gone
    table.append(pa.table({"n": pa.array([0], pa.int32()), "v": ["a b/c%"]}))
    kept.add(0)
    expected = sorted(kept)
    assert sorted(table.read_arrow()["n"].to_pylist()) == expected
    assert sorted(n for (n,) in ask_duckdb(place.directory(table), "n")) == expected
    assert sorted(row["n"] for row in ask_pyiceberg(place.metadata_file(table))) == expected
    assert sorted(row["n"] for row in ask_pyiceberg(place.metadata_file(table), "n < 40 and v is null")) == [
        number for number in expected if number < 40 and number % 3 == 2
    ]
    assert sorted(int(n) for (n,) in ask_clickhouse(place.directory(table), "n")) == expected
    assert len(ask_pyiceberg(place.metadata_file(table, before))) == 90


def test_compacted_tables_of_every_type(tmp_path: Path) -> None:
    """With deletes before the end of the window, which are applied, and after it, which are carried."""
    place = Place(tmp_path / "lake")
    lake = place.lake
    lake.set_properties({"compaction.min_inputs": "2"})
    filling = {kind: filled(place, kind, [], f"compacted{n}") for n, kind in enumerate(TYPES)}
    _pad(lake)
    for start in (100, 200):
        with lake.transaction() as tx:
            for table, _ in filling.values():
                rows = table.read_arrow(version=lake.version, where="n < 100")
                tx.table(table.name).append(
                    rows.set_column(0, "n", pa.array([n + start for n in rows["n"].to_pylist()], pa.int32()))
                )
    _delete_all(lake, filling, "n = 100")
    _pad(lake)
    _delete_all(lake, filling, "n = 201")
    before = {kind: _by_number(table.read_arrow().to_pylist()) for kind, (table, _) in filling.items()}
    report = lake.compact()
    assert len(report.tables) == len(filling) and not report.cancelled
    for kind, (table, _) in filling.items():
        assert _by_number(table.read_arrow().to_pylist()) == before[kind], kind
        metadata = str(sorted((place.directory(table) / "metadata").glob("v*.metadata.json"))[-1])
        numbers = [row["n"] for row in before[kind]]
        assert [row["n"] for row in _by_number(ask_pyiceberg(metadata))] == numbers
    table = filling["STRING"][0]
    told = sorted(ask_duckdb(place.directory(table), "n, v"))
    assert [(n, str(v)) for n, v in told] == [(row["n"], row["v"]) for row in before["STRING"]]
    assert sorted(int(n) for (n,) in ask_clickhouse(place.directory(table), "n")) == [n for n, _ in told]


def _pad(lake: hg.Lake) -> None:
    """Until a window is complete."""
    while lake.version % 4:
        lake.set_properties({"n": str(lake.version)})


def _delete_all(lake: hg.Lake, filling: dict[str, tuple[Table, list[Any]]], where: str) -> None:
    with lake.transaction() as tx:
        for table, _ in filling.values():
            tx.table(table.name).delete(where)


def _by_number(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    # NaN is not equal to itself; its text is.
    return [{"n": row["n"], "v": str(row["v"])} for row in sorted(rows, key=lambda row: row["n"])]


Evolve = Callable[[Table], object]
EVOLUTIONS: dict[str, tuple[Evolve, dict[str, Any]]] = {
    "add": (lambda t: t.add_column("x", "BIGINT", first=True), {"x": 7}),
    "add nested": (lambda t: t.add_column("s.y", "STRING"), {"s": {"a": 7, "y": "y"}}),
    "drop": (lambda t: t.drop_column("name"), {"name": ...}),
    "rename": (lambda t: t.rename_column("name", "label"), {"name": ..., "label": "new"}),
    "rename nested": (lambda t: t.rename_column("s.a", "b"), {"s": {"b": 7}}),
    "widen int": (lambda t: t.widen_column("i", "BIGINT"), {"i": 2**40}),
    "widen float": (lambda t: t.widen_column("f", "DOUBLE"), {"f": 0.1}),
    "widen decimal": (lambda t: t.widen_column("d", "DECIMAL(12, 2)"), {"d": Decimal("123456789.25")}),
    "move": (lambda t: t.move_column("p", before="i"), {}),
    "make optional": (lambda t: t.make_optional("i"), {"i": None}),
    "add partition field": (lambda t: t.add_partition_field("bucket(2, i)"), {}),
    "drop partition field": (lambda t: t.drop_partition_field("p"), {}),
    "replace partitions": (lambda t: t.replace_partition_by(["truncate(1, name)", "day(ts)"]), {}),
    "no partitions": (lambda t: t.replace_partition_by([]), {}),
    "sort order": (lambda t: t.replace_sort_by(["i desc", "name"]), {}),
    "drop an old partition column": (
        lambda t: (
            t.replace_partition_by([]),
            t.overwrite(t.read_arrow()),
            t.overwrite(t.read_arrow()),
            t.drop_column("p"),
        ),
        {"p": ...},
    ),
}
BASE = (
    "n INT NOT NULL, i INT NOT NULL, name STRING, f FLOAT, d DECIMAL(9, 2), ts TIMESTAMP_NTZ, p STRING, "
    "s STRUCT<a: INT>"
)


def a_row(number: int) -> dict[str, Any]:
    return {
        "n": number,
        "i": number * 3,
        "name": f"name {number}",
        "f": number / 2,
        "d": Decimal(f"{number}.25"),
        "ts": dt.datetime(2026, 1, 1 + number),
        "p": None if number % 3 == 0 else str(number % 3),
        "s": {"a": number},
    }


def arrow(table: Table, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema_to_pyarrow(table.schema, include_field_ids=False))


@pytest.mark.parametrize("change", EVOLUTIONS)
def test_every_evolution(place: Place, change: str) -> None:
    evolve, differences = EVOLUTIONS[change]
    name = "evolved." + change.replace(" ", "_")
    table = place.lake.create_table(name, BASE, partition_by=["p"])
    for number in range(3):
        table.append(arrow(table, [a_row(number), a_row(number + 3)]))
    before = place.lake.version
    evolve(table)
    new = {**a_row(9), **differences}
    for number in range(9, 12):
        row = {key: value for key, value in {**new, "n": number}.items() if value is not ...}
        table.append(arrow(table, [row]))
    agree_on(place, table)
    # As it was before, from the metadata of then.
    old = sorted(ask_pyiceberg(place.metadata_file(table, before)), key=lambda row: row["n"])
    assert old == [a_row(number) for number in range(6)]
    assert table.read_arrow(version=before).sort_by("n").to_pylist() == old


def agree_on(place: Place, table: Table) -> None:
    read = table.read_arrow().sort_by("n")
    names = read.column_names
    ours = read.to_pylist()
    assert [row["n"] for row in ours] == [0, 1, 2, 3, 4, 5, 9, 10, 11]
    columns = ", ".join(names)
    duckdb = sorted(ask_duckdb(place.directory(table), columns), key=lambda row: row[names.index("n")])
    assert [dict(zip(names, row, strict=True)) for row in duckdb] == ours
    pyiceberg = ask_pyiceberg(place.metadata_file(table))
    assert sorted(pyiceberg, key=lambda row: row["n"]) == ours
    # Pruned by bounds and partitions, of files from before and after.
    for row_filter in ("n >= 9", "n < 9 and i >= 6"):
        kept = [row["n"] for row in ours if _selected(row, row_filter)]
        told = ask_pyiceberg(place.metadata_file(table), row_filter)
        assert sorted(row["n"] for row in told) == kept, row_filter
    numbers = ask_clickhouse(place.directory(table), "n, toInt64(i), toString(d), toFloat64(f)")
    expected = [_numbers((row["n"], row["i"], row["d"], row["f"])) for row in ours]
    assert [_numbers(row) for row in sorted(numbers, key=lambda row: int(row[0]))] == expected


def _selected(row: dict[str, Any], row_filter: str) -> bool:
    if row_filter == "n >= 9":
        return bool(row["n"] >= 9)
    return row["n"] < 9 and row["i"] is not None and row["i"] >= 6


def _numbers(row: tuple[Any, ...]) -> list[float | None]:
    return [None if value is None else float(value) for value in row]


NEAR = 3000
"""So many rows are told by differences, and some more than go into one page of them."""


def near_values(place: Place) -> tuple[Table, pa.Table]:
    """A table whose columns are all told by differences, also after one of them got another type."""
    columns = "n INT, i INT, d DATE, t TIMESTAMP_NTZ, z TIMESTAMP"
    asked = {"write.parquet.delta-encoding": "true"}
    table = place.lake.create_table("types.near", f"{columns}, w BIGINT", properties=asked)
    numbers = pa.array([n * 17 + n % 5 - 20_000 for n in range(NEAR)], pa.int64())
    rows = pa.table(
        {
            "n": pa.array(range(NEAR), pa.int32()),
            "i": numbers.cast(pa.int32()),
            "d": pa.array([n // 3 - 400 + n % 3 * 900 for n in range(NEAR)], pa.int32()).cast(pa.date32()),
            "t": numbers.cast(pa.timestamp("us")),
            "z": numbers.cast(pa.timestamp("us", tz="UTC")),
            "w": pa.array([(n % 7 - 3) * 2**40 + n for n in range(NEAR)], pa.int64()),
        }
    )
    table.append(rows)
    table.widen_column("i", "BIGINT")
    (file,) = table.files()
    group = pq.read_metadata(file.path.removeprefix("file://")).row_group(0)
    encodings = [group.column(number).encodings for number in range(group.num_columns)]
    assert all("DELTA_BINARY_PACKED" in kinds for kinds in encodings), encodings
    return table, rows.set_column(1, "i", rows["i"].cast(pa.int64()))


def test_columns_that_are_told_by_differences(place: Place) -> None:
    table, rows = near_values(place)
    expected = rows.to_pylist()
    names = ", ".join(rows.column_names)
    assert table.read_arrow().to_pylist() == expected
    duckdb = ask_duckdb(place.directory(table), names)
    assert [dict(zip(rows.column_names, row, strict=True)) for row in sorted(duckdb)] == expected
    told = ask_pyiceberg(place.metadata_file(table))
    assert sorted(told, key=lambda row: row["n"]) == expected
    # As numbers: the texts of moments depend on the zone of the machine.
    numbers = "n, i, toInt32(d), toUnixTimestamp64Micro(t), toUnixTimestamp64Micro(z), w"
    raw = [column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64()) for column in rows.columns]
    clickhouse = [tuple(map(int, row)) for row in ask_clickhouse(place.directory(table), numbers)]
    assert sorted(clickhouse) == list(zip(*(column.to_pylist() for column in raw), strict=True))


def test_what_is_not_committed_is_not_seen(tmp_path: Path) -> None:
    """An attempt leaves metadata that no record names: no engine takes it for a version of the table."""
    place = Place(tmp_path / "lake")
    table = with_an_attempt(place, tmp_path / "lake")
    directory = place.directory(table)
    assert len(list(directory.rglob("*-*.metadata.json"))) == 3
    assert sorted(ask_duckdb(directory, "n")) == [(1,), (2,)]
    assert clickhouse_numbers(directory) == [1, 2]
    assert sorted(row["n"] for row in ask_pyiceberg(str(directory))) == [1, 2]


def test_the_exact_metadata_file_of_a_version(tmp_path: Path) -> None:
    """What `headgate show --json` names, in a directory of its own, is a metadata file to every engine."""
    place = Place(tmp_path / "lake")
    table = with_an_attempt(place, tmp_path / "lake")
    exact = Path(table.metadata_location.removeprefix("file://"))
    table.append(pa.table({"n": [4]}))
    directory = place.directory(table)
    assert sorted(ask_duckdb(exact, "n")) == [(1,), (2,)]
    assert sorted(row["n"] for row in ask_pyiceberg(str(exact))) == [1, 2]
    assert clickhouse_numbers(directory, str(exact.relative_to(directory))) == [1, 2]
    assert clickhouse_numbers(directory) == [1, 2, 4]


def test_an_attempt_that_an_earlier_release_left(tmp_path: Path) -> None:
    """An engine that goes by numbers sees it until the table has a higher one, or a vacuum has removed it."""
    places = []
    for number in range(2):
        place = Place(tmp_path / f"lake{number}")
        table = with_an_attempt(place, tmp_path / f"lake{number}")
        metadata = place.directory(table) / "metadata"
        (left,) = place.directory(table).glob(f"attempts/{3:020d}-*")
        left.rename(metadata / left.name)
        places.append((place, table))
        assert clickhouse_numbers(place.directory(table)) == [1, 2, 3]
    (_, changed), (vacuumed, table) = places
    changed.append(pa.table({"n": [4]}))  # becomes the version that the attempt was at: both have that number
    changed.append(pa.table({"n": [5]}))
    assert clickhouse_numbers(places[0][0].directory(changed)) == [1, 2, 4, 5]
    vacuumed.lake.vacuum(older_than="0s")
    assert clickhouse_numbers(vacuumed.directory(table)) == [1, 2]


def with_an_attempt(place: Place, root: Path) -> Table:
    """A table with two rows at version 2, and what an attempt at version 3 left that was never committed."""
    table = place.lake.create_table("t.t", "n BIGINT")
    table.append(pa.table({"n": [1, 2]}))
    never, _ = faulty(open_store(str(root)), Fault(is_record, refuse))
    with pytest.raises(hg.StorageError):
        hg.Lake.open(never).table("t.t").append(pa.table({"n": [3]}))
    return table


def clickhouse_numbers(directory: Path, metadata_file: str | None = None) -> list[int]:
    return sorted(int(n) for (n,) in ask_clickhouse(directory, "n", metadata_file))


def is_record(request: Request) -> bool:
    return isinstance(request, Create) and request.key == PLAIN.record_key(Version(3))


def test_tables_after_an_expire(tmp_path: Path) -> None:
    """Files were deleted, and every engine reads what it read before; none finds a snapshot that is gone."""
    clock = Clock()
    place = Place(tmp_path / "lake")
    place.lake = hg.Lake.open(tmp_path / "lake", host=AgingHost(clock))
    table = place.lake.create_table("t.t", "n BIGINT, s STRING", partition_by=["bucket(2, n)"])
    for number in range(6):
        clock.pass_time(dt.timedelta(hours=12))
        table.append(pa.table({"n": [number, 10 + number], "s": ["a", "b"]}))
    table.delete("n IN (3, 12)")
    table.overwrite(pa.table({"n": [100], "s": ["c"]}), where="n < 2 OR n = 100")
    clock.pass_time(dt.timedelta(days=2))
    table.append(pa.table({"n": [200], "s": ["d"]}))
    expected = sorted((row["n"], row["s"]) for row in table.read_arrow().to_pylist())
    report = place.lake.expire(["all:1d"])
    assert report.data_files
    place.lake.vacuum(older_than="0s")
    directory = place.directory(table)
    assert sorted(ask_duckdb(directory, "n, s")) == expected
    assert sorted((int(n), s) for n, s in ask_clickhouse(directory, "n, s")) == expected
    told = ask_pyiceberg(place.metadata_file(table))
    assert sorted((row["n"], row["s"]) for row in told) == expected
    static = StaticTable.from_metadata(place.metadata_file(table))
    assert static.metadata.snapshots
    for snapshot in static.metadata.snapshots:
        rows = static.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        then = table.read_arrow(version=snapshot.sequence_number)
        assert sorted(rows.column("n").to_pylist()) == sorted(then.column("n").to_pylist())
