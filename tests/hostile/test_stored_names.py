"""Names and keys that records, checkpoints and metadata files say: they are checked when they are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.errors import CorruptLakeError
from headgate.model.identifiers import Version
from headgate.model.json_object import JsonObject
from headgate.model.table import TableRef, stored_name
from tests.hostile import crafting
from tests.hostile.crafting import make_lake

BAD_NAMES = (
    "../../x",
    "t",
    "a.b.c",
    "t.\x1b[31mt",
    "t.t\n",
    "t. t",
    "t.t/../..",
    "t.",
    ".t",
    "t.t\u202e",
    "t.'t'",
)
BAD_REFS = (
    ("data/t/t", "data/t/t/metadata/../../../../headgate.json"),
    ("data/t/t", "headgate.json"),
    ("data/t/t", "data/t/other/metadata/1.json"),
    ("data/../..", "data/../../metadata/1.json"),
    ("control/log", "control/log/metadata/1.json"),
    ("/etc", "/etc/metadata/x"),
    ("data/t/t", "data/t/t/metadata/\x1b[2J"),
)


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_no_table_has(name: str) -> None:
    with pytest.raises(CorruptLakeError, match=r"the record of version 1: .* is not a name") as raised:
        stored_name(name, "the record of version 1")
    assert "\x1b" not in raised.value.problem


@pytest.mark.parametrize("name", ["sales.orders", "_a._b", "ü.日本", "a-1.b_2"])
def test_a_name_that_a_table_may_have(name: str) -> None:
    assert stored_name(name, "here") == name


@pytest.mark.parametrize(("location", "metadata"), BAD_REFS)
def test_a_table_that_lies_elsewhere(location: str, metadata: str) -> None:
    with pytest.raises(CorruptLakeError, match=r"^here: "):
        TableRef.from_json(
            JsonObject({"uuid": "u", "location": location, "metadata": metadata}, "here"), Version(9)
        )


def change_table(**fields: str) -> Callable[[dict[str, Any]], None]:
    def change(record: dict[str, Any]) -> None:
        record["tables"][0].update(fields)

    return change


@pytest.mark.parametrize(
    "fields", [{"name": "../../x"}, {"name": "t.\x1b[2J"}, {"location": "../x"}], ids=str
)
def test_a_record_with_such_a_name_is_damage_of_this_record(tmp_path: Path, fields: dict[str, str]) -> None:
    make_lake(tmp_path / "lake")
    record = tmp_path / "lake/control/log/00000000000000000004.json"
    crafting.change_json(record, change_table(**fields))
    with pytest.raises(CorruptLakeError, match="the record of version 4") as raised:
        hg.Lake.open(tmp_path / "lake").tables()
    assert "\x1b" not in str(raised.value)
    assert "fsck" in raised.value.next_step


@pytest.mark.parametrize("path", ["../../../x", "/etc/passwd", "data//x", ""])
def test_a_footprint_with_such_a_path(tmp_path: Path, path: str) -> None:
    make_lake(tmp_path / "lake")

    def change(record: dict[str, Any]) -> None:
        record["tables"][0].setdefault("footprint", {})["positions"] = [path]

    crafting.change_json(tmp_path / "lake/control/log/00000000000000000004.json", change)
    with pytest.raises(CorruptLakeError, match="not the path of a file inside the table"):
        hg.Lake.open(tmp_path / "lake").tables()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("schemas", 5),
        ("schemas", [{}]),
        ("current-schema-id", 99),
        ("partition-specs", [None]),
        ("current-snapshot-id", 7),
        ("properties", {"a": 1}),
        ("location", None),
    ],
)
def test_a_metadata_file_with_anything_in_it(tmp_path: Path, name: str, value: object) -> None:
    make_lake(tmp_path / "lake")
    crafting.change_json(
        crafting.metadata_files(tmp_path / "lake")[3], lambda fields: fields.__setitem__(name, value)
    )
    with pytest.raises(CorruptLakeError):
        hg.Lake.open(tmp_path / "lake").table("t.t").read_arrow()
