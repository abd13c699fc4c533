"""Headgate: a transactional lakehouse for PySpark.

Any number of writers commit to one lake, on any storage that can PUT, GET and LIST.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from headgate.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    CorruptLakeError,
    HeadgateError,
    HookFailedError,
    InternalError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from headgate.release import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headgate import hooks
    from headgate.core.expire_policy import ExpirePolicy
    from headgate.core.log_entry import LogEntry
    from headgate.core.retry import RetryPolicy
    from headgate.examination import fsck
    from headgate.hooks import Hook
    from headgate.lake import Lake
    from headgate.materializing import RefreshResult
    from headgate.model.compaction import CompactionProgress, CompactionReport
    from headgate.model.expiry import ExpireReport, VacuumReport
    from headgate.model.fsck import Finding, FsckReport
    from headgate.model.instant import Instant
    from headgate.result import CommitResult, Diagnosis, Resolution
    from headgate.table import Table
    from headgate.transaction import Transaction
    from headgate.view import LakeView

__all__ = [
    "AlreadyExistsError",
    "CommitResult",
    "CommitUnknownError",
    "CompactionProgress",
    "CompactionReport",
    "ConflictError",
    "CorruptLakeError",
    "Diagnosis",
    "ExpirePolicy",
    "ExpireReport",
    "Finding",
    "FsckReport",
    "HeadgateError",
    "Hook",
    "HookFailedError",
    "Instant",
    "InternalError",
    "InvalidInputError",
    "Lake",
    "LakeView",
    "LogEntry",
    "NotFoundError",
    "RefreshResult",
    "Resolution",
    "RetryPolicy",
    "StorageError",
    "Table",
    "Transaction",
    "UnsupportedError",
    "VacuumReport",
    "__version__",
    "fsck",
    "hooks",
    "session",
]


_HOMES = MappingProxyType(
    {
        "CommitResult": "headgate.result",
        "CompactionProgress": "headgate.model.compaction",
        "CompactionReport": "headgate.model.compaction",
        "Diagnosis": "headgate.result",
        "ExpirePolicy": "headgate.core.expire_policy",
        "ExpireReport": "headgate.model.expiry",
        "Finding": "headgate.model.fsck",
        "FsckReport": "headgate.model.fsck",
        "Hook": "headgate.hooks",
        "Instant": "headgate.model.instant",
        "Lake": "headgate.lake",
        "LakeView": "headgate.view",
        "LogEntry": "headgate.core.log_entry",
        "RefreshResult": "headgate.materializing",
        "Resolution": "headgate.result",
        "RetryPolicy": "headgate.core.retry",
        "Table": "headgate.table",
        "Transaction": "headgate.transaction",
        "VacuumReport": "headgate.model.expiry",
        "fsck": "headgate.examination",
    }
)
"""Names that are loaded when they are first used: `headgate --help` waits for none of them."""


def __getattr__(name: str) -> Any:
    if name == "hooks":
        return import_module("headgate.hooks")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def session(master: str = "local[*]", *, app_name: str = "headgate", **conf: object) -> SparkSession:
    """A Spark session with settings that suit Headgate, or the one that is running already.

    Settings of Spark are keyword arguments with underscores for dots, or a dictionary:
    `session(spark_driver_memory="4g")`, `session(**{"spark.driver.memory": "4g"})`. A session of your own
    works as well: pass it to `Table.read`, or append a DataFrame of it.
    """
    from headgate.spark.session import session as start  # loads pyspark, which not every program needs

    return start(master, app_name=app_name, **conf)
