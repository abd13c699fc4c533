"""The pages of data files: whether all of them can be decoded, as a full read of the table would do.

Does not know the table: neither its columns, nor which rows are deleted.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.arrow.file_rows import ParquetParts, open_parquet
from headgate.arrow.footers import row_count
from headgate.errors import CorruptLakeError, StorageError
from headgate.log.driver import Driver

ROWS_AT_ONCE = 8 * 1024
"""How many rows of one column are in memory when they are decoded."""


def decode_rows(driver: Driver, key: str, uri: str, size_bytes: int) -> int:
    """The number of rows in a data file, after decoding every page, one column of a row group at a time.

    Memory holds the stored bytes of one such column (of all columns in a file of up to 8 MiB), and some of
    its rows. Raises `CorruptLakeError` if a page cannot be decoded, or does not match the checksum in its
    header; a writer need not store one. Skips pages that Arrow cannot decode, because of their codec or type.
    """
    try:
        return _decode(open_parquet(driver, key, size_bytes), uri)
    except FileNotFoundError as error:
        raise StorageError(f"the storage does not return {key}") from error
    except pa.ArrowNotImplementedError:  # the type of a column, which opening the file already needs
        return row_count(driver, key, uri)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise CorruptLakeError(f"{uri} cannot be read: {error}") from error


def _decode(file: ParquetParts, uri: str) -> int:
    reader = file.verifying()
    rows = 0
    for number in range(file.footer.num_row_groups):
        expected = int(file.footer.row_group(number).num_rows)
        for column in dict.fromkeys(file.schema.names):
            _require_decodable(reader, number, column, expected, uri)
        rows += expected
    return rows


def _require_decodable(reader: pq.ParquetFile, group: int, column: str, expected: int, uri: str) -> None:
    batches = reader.iter_batches(ROWS_AT_ONCE, [group], [column], use_threads=False)
    where = f"row group {group} of {uri}, column {column!r}"
    try:
        found = sum(batch.num_rows for batch in batches)
    except pa.ArrowNotImplementedError:
        return
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise CorruptLakeError(f"{where}, cannot be read: {error}") from error
    if found != expected:
        raise CorruptLakeError(f"{where}, has {found:,} rows, but the footer says {expected:,}")
