"""What files of other programs hold."""

from __future__ import annotations

from enum import Enum


class Format(Enum):
    """A format of files. The value is what stands on storage."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"
    TEXT = "text"
