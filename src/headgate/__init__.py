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
    from headgate.core.conflict.retry import RetryPolicy
    from headgate.core.history.log_entry import LogEntry
    from headgate.core.retention.expire_policy import ExpirePolicy
    from headgate.hooks import Hook
    from headgate.lake.fsck import fsck, repair
    from headgate.lake.lake import Lake
    from headgate.lake.lake_view import LakeView
    from headgate.lake.materialized_views import RefreshResult
    from headgate.lake.table import Table
    from headgate.model.attempts import VersionAttempts
    from headgate.model.fsck import CutOut, Finding, FsckReport, RepairReport
    from headgate.model.instant import Instant
    from headgate.model.reports import CompactionProgress, CompactionReport, ExpireReport, VacuumReport
    from headgate.transaction.result import CommitResult, Diagnosis, Resolution
    from headgate.transaction.transaction import Transaction

__all__ = [
    "AlreadyExistsError",
    "CommitResult",
    "CommitUnknownError",
    "CompactionProgress",
    "CompactionReport",
    "ConflictError",
    "CorruptLakeError",
    "CutOut",
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
    "RepairReport",
    "Resolution",
    "RetryPolicy",
    "StorageError",
    "Table",
    "Transaction",
    "UnsupportedError",
    "VacuumReport",
    "VersionAttempts",
    "__version__",
    "fsck",
    "hooks",
    "repair",
    "session",
]


_HOMES = MappingProxyType(
    {
        "CommitResult": "headgate.transaction.result",
        "CompactionProgress": "headgate.model.reports",
        "CompactionReport": "headgate.model.reports",
        "Diagnosis": "headgate.transaction.result",
        "ExpirePolicy": "headgate.core.retention.expire_policy",
        "ExpireReport": "headgate.model.reports",
        "CutOut": "headgate.model.fsck",
        "Finding": "headgate.model.fsck",
        "FsckReport": "headgate.model.fsck",
        "Hook": "headgate.hooks",
        "Instant": "headgate.model.instant",
        "Lake": "headgate.lake.lake",
        "LakeView": "headgate.lake.lake_view",
        "LogEntry": "headgate.core.history.log_entry",
        "RefreshResult": "headgate.lake.materialized_views",
        "RepairReport": "headgate.model.fsck",
        "Resolution": "headgate.transaction.result",
        "RetryPolicy": "headgate.core.conflict.retry",
        "Table": "headgate.lake.table",
        "Transaction": "headgate.transaction.transaction",
        "VacuumReport": "headgate.model.reports",
        "VersionAttempts": "headgate.model.attempts",
        "fsck": "headgate.lake.fsck",
        "repair": "headgate.lake.fsck",
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
