"""Headgate: a transactional lakehouse for PySpark.

Any number of writers commit to one lake, on any storage that can PUT, GET and LIST.
"""

from headgate.core.retry import RetryPolicy
from headgate.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    CorruptLakeError,
    HeadgateError,
    InternalError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from headgate.lake import Diagnosis, Lake, LakeView, LogEntry, Resolution
from headgate.release import __version__
from headgate.transaction import CommitResult, Transaction

__all__ = [
    "AlreadyExistsError",
    "CommitResult",
    "CommitUnknownError",
    "ConflictError",
    "CorruptLakeError",
    "Diagnosis",
    "HeadgateError",
    "InternalError",
    "InvalidInputError",
    "Lake",
    "LakeView",
    "LogEntry",
    "NotFoundError",
    "Resolution",
    "RetryPolicy",
    "StorageError",
    "Transaction",
    "UnsupportedError",
    "__version__",
]
