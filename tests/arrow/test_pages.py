"""Every page of a data file is decoded, whether the file is read as a whole or in parts."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headgate.arrow import file_rows
from headgate.arrow.pages import decode_rows
from headgate.errors import CorruptLakeError, StorageError
from headgate.log.driver import Driver
from headgate.storage.local import LocalStore
from headgate.system.host import SYSTEM

ROWS = pa.table(
    {
        "id": range(10),
        "name": [f"name {number}" for number in range(10)],
        "place": [{"zip": str(number), "tags": ["a"] * number} for number in range(10)],
    }
)
KEY = "data/db/t/data/L0-0/x.parquet"


@pytest.fixture(params=["whole", "in parts"])
def driver(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    if request.param == "in parts":
        monkeypatch.setattr(file_rows, "WHOLE_BYTES", 0)
        monkeypatch.setattr(file_rows, "TAIL_BYTES", 8)
    return Driver(LocalStore(tmp_path), SYSTEM)


def encoded(**options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(ROWS, out, row_group_size=4, use_dictionary=False, **options)
    return out.getvalue()


def rows_in(driver: Driver, data: bytes) -> int:
    driver.put(KEY, data)
    return decode_rows(driver, KEY, "here", len(data))


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
def test_a_sound_file_has_its_rows(driver: Driver, codec: str) -> None:
    assert rows_in(driver, encoded(compression=codec)) == 10


def test_a_file_without_rows_has_none(driver: Driver) -> None:
    out = io.BytesIO()
    pq.write_table(ROWS.slice(0, 0), out)
    assert rows_in(driver, out.getvalue()) == 0


@pytest.mark.parametrize("group", [0, 1, 2])
@pytest.mark.parametrize(("leaf", "column"), [(0, "id"), (1, "name"), (2, "place"), (3, "place")])
def test_each_damaged_page_is_found(driver: Driver, group: int, leaf: int, column: str) -> None:
    data = bytearray(encoded(compression="zstd"))
    chunk = pq.read_metadata(io.BytesIO(data)).row_group(group).column(leaf)
    start = chunk.data_page_offset
    for at in range(start, start + chunk.total_compressed_size):
        data[at] ^= 0xFF
    with pytest.raises(CorruptLakeError, match=f"row group {group} of here, column '{column}'"):
        rows_in(driver, bytes(data))


def test_a_single_byte_is_found_by_the_checksum_of_its_page(driver: Driver) -> None:
    data = encoded(compression="none", write_page_checksum=True)
    assert rows_in(driver, data) == 10
    with pytest.raises(CorruptLakeError, match="checksum"):
        rows_in(driver, data.replace(b"name 3", b"name 4"))


def test_a_footer_that_says_other_rows_is_found(driver: Driver) -> None:
    few, many = (pa.table({"a": pa.array(range(n), pa.int64())}) for n in (3, 5))
    parts = []
    for rows in (few, many):
        out = io.BytesIO()
        pq.write_table(rows, out, compression="none", use_dictionary=False, write_statistics=False)
        parts.append(out.getvalue())
    cut = [len(one) - int.from_bytes(one[-8:-4], "little") - 8 for one in parts]
    # The pages of three rows where the footer expects those of five.
    data = parts[0][: cut[0]].ljust(cut[1], b"\0") + parts[1][cut[1] :]
    with pytest.raises(CorruptLakeError, match="column 'a'"):
        rows_in(driver, data)


def test_a_missing_file_is_a_failure_of_the_storage(driver: Driver) -> None:
    with pytest.raises(StorageError, match="does not return"):
        decode_rows(driver, KEY, "here", 100)


def test_what_is_not_parquet_is_damaged(driver: Driver) -> None:
    with pytest.raises(CorruptLakeError, match="here cannot be read"):
        rows_in(driver, b"not Parquet at all, but long enough")


def test_what_arrow_cannot_decode_counts_as_its_footer_says(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: Any, **_options: Any) -> Any:
        raise pa.ArrowNotImplementedError("Support for codec 'lzo' not built")

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", refuse)
    assert rows_in(driver, encoded()) == 10
