"""Translates exceptions of the Hadoop client to our errors.

The NameNode remembers its answers to requests that must not be executed twice. So if the client repeats a
request and then gets a "no", the "no" is the answer to the first try as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from headgate.core.input.secrets import clean_text
from headgate.errors import (
    InvalidInputError,
    NoAnswerError,
    StorageError,
    StorageRefusedError,
    UnsupportedError,
)

Kind: TypeAlias = type[StorageError | InvalidInputError | UnsupportedError]

GATEWAY_ERRORS = (Py4JError, PySparkException)
"""The exceptions that a call into the JVM can raise."""

NOT_THERE = frozenset({"FileNotFoundException", "NoSuchFileException", "NotDirectoryException"})
IS_THERE = frozenset({"FileAlreadyExistsException", "PathExistsException"})
NOT_A_DIRECTORY = frozenset({"ParentNotDirectoryException", "PathIsNotDirectoryException"})

_RIGHTS = "get the permission to read and write there, or choose another location"
_SPACE = "free some space or raise the quota, then try again"
_CONNECTOR = "add the connector for this scheme to the Spark session"

ERRORS: dict[str, Kind] = {
    # No permission.
    "AccessControlException": StorageRefusedError,
    "AccessDeniedException": StorageRefusedError,
    "PathAccessDeniedException": StorageRefusedError,
    "PathPermissionException": StorageRefusedError,
    "SnapshotAccessControlException": StorageRefusedError,
    "AclException": StorageRefusedError,
    "KerberosAuthException": StorageRefusedError,
    "InvalidBlockTokenException": NoAnswerError,
    # No space.
    "QuotaExceededException": StorageRefusedError,
    "DSQuotaExceededException": StorageRefusedError,
    "NSQuotaExceededException": StorageRefusedError,
    "QuotaByStorageTypeExceededException": StorageRefusedError,
    "ClusterStorageCapacityExceededException": StorageRefusedError,
    # Objects that already exist, or do not exist: the calls that expect this return a value; elsewhere it is
    # an error. A repeated rename may not find what it has already moved itself.
    "FileNotFoundException": NoAnswerError,
    "NoSuchFileException": NoAnswerError,
    "PathNotFoundException": NoAnswerError,
    "NotDirectoryException": StorageRefusedError,
    "FileAlreadyExistsException": StorageRefusedError,
    "PathExistsException": StorageRefusedError,
    "ParentNotDirectoryException": StorageRefusedError,
    "PathIsNotDirectoryException": StorageRefusedError,
    "PathIsDirectoryException": StorageRefusedError,
    "PathIsNotEmptyDirectoryException": StorageRefusedError,
    "DirectoryNotEmptyException": StorageRefusedError,
    "UnresolvedLinkException": StorageRefusedError,
    "UnresolvedPathException": StorageRefusedError,
    "XAttrNotFoundException": StorageRefusedError,
    "NoECPolicySetException": StorageRefusedError,
    "AlreadyBeingCreatedException": StorageRefusedError,
    # A name that the file system does not allow.
    "InvalidPathException": InvalidInputError,
    "PathComponentTooLongException": InvalidInputError,
    "IllegalArgumentException": InvalidInputError,
    "URISyntaxException": InvalidInputError,
    "UnknownHostException": StorageRefusedError,
    # It cannot write in its current state, and says so.
    "SafeModeException": StorageRefusedError,
    "StandbyException": StorageRefusedError,
    "RetriableException": StorageRefusedError,
    "ObserverRetryOnActiveException": StorageRefusedError,
    "CallQueueOverflowException": StorageRefusedError,
    "RetryStartFileException": StorageRefusedError,
    "NotReplicatedYetException": NoAnswerError,
    # It does not support this at all.
    "UnsupportedFileSystemException": UnsupportedError,
    "UnsupportedOperationException": UnsupportedError,
    "UnsupportedMultipartUploaderException": UnsupportedError,
    "NotInMountpointException": UnsupportedError,
    "ZeroCopyUnavailableException": UnsupportedError,
    "RpcNoSuchMethodException": UnsupportedError,
    "RpcNoSuchProtocolException": UnsupportedError,
    "InvalidRequestException": UnsupportedError,
    "InvalidPathHandleException": StorageRefusedError,
    "DirectoryListingStartAfterNotFoundException": NoAnswerError,
    # It is unknown whether this was done.
    "ChecksumException": NoAnswerError,
    "FSError": NoAnswerError,
    "PathIOException": NoAnswerError,
    "PathOperationException": NoAnswerError,
    "ClosedIOException": NoAnswerError,
    "RemoteException": NoAnswerError,
    "IpcException": NoAnswerError,
    "RpcException": NoAnswerError,
    "RpcClientException": NoAnswerError,
    "RpcServerException": NoAnswerError,
    "UnexpectedServerException": NoAnswerError,
    "AsyncCallLimitExceededException": NoAnswerError,
    "ConnectException": NoAnswerError,
    "ConnectTimeoutException": NoAnswerError,
    "SocketTimeoutException": NoAnswerError,
    "BlockMissingException": NoAnswerError,
    "CannotObtainBlockLengthException": NoAnswerError,
    "IOException": NoAnswerError,
    "RuntimeException": NoAnswerError,
    "Error": NoAnswerError,
}
"""What each exception means to us, by its name without the package. An exception that is not listed has the
meaning of its nearest ancestor. A test fails if Hadoop's file systems get a new one."""

_NEXT_STEPS: dict[Kind, str] = {UnsupportedError: _CONNECTOR}
_STEPS_BY_NAME: dict[str, str] = {
    **dict.fromkeys(
        ("AccessControlException", "AccessDeniedException", "PathAccessDeniedException"), _RIGHTS
    ),
    **{name: _SPACE for name in ERRORS if "Quota" in name or "Capacity" in name},
    "SafeModeException": "wait until the NameNode has left safe mode, then try again",
    "UnknownHostException": "check the name of the host",
    "ConnectException": "check the address, and that the NameNode runs",
}


def lineage(error: Py4JJavaError) -> list[str]:
    """The names of the exception and its ancestors, without packages, nearest first."""
    names: list[str] = []
    kind = error.java_exception.getClass()
    while kind is not None:
        names.append(_simple(str(kind.getName())))
        kind = kind.getSuperclass()
    if names[0] == "RemoteException":
        # Hadoop wraps an exception that the client does not expect.
        names.insert(0, _simple(str(error.java_exception.getClassName())))
    return names


def _simple(name: str) -> str:
    return name.rpartition(".")[2].rpartition("$")[2]


def is_one_of(error: Py4JJavaError, names: frozenset[str]) -> bool:
    return lineage(error)[0] in names


def leads_nowhere(error: Py4JJavaError) -> bool:
    """Whether nothing exists at the path. HDFS reports a path through a file as a permission problem."""
    if is_one_of(error, NOT_THERE | NOT_A_DIRECTORY):
        return True
    return "is not a directory" in str(error.java_exception.getMessage())


def storage_error(
    doing: str, error: Py4JError | PySparkException
) -> StorageError | InvalidInputError | UnsupportedError:
    """Translates an exception that came through the gateway to the JVM."""
    if isinstance(error, PySparkException):
        # Spark converts some of Java's own exceptions to its own classes with the same names.
        kind = ERRORS.get(type(error).__name__, NoAnswerError)
        return kind(f"{doing}: {_first_line(str(error))}")
    if not isinstance(error, Py4JJavaError):
        return NoAnswerError(f"{doing}: the Spark session does not answer: {_first_line(str(error))}")
    names = lineage(error)
    known = next((name for name in names if name in ERRORS), "Error")
    kind = ERRORS[known]
    text = _first_line(str(error.java_exception.getMessage() or ""))
    if "No space left" in text:
        kind, known = StorageRefusedError, "QuotaExceededException"
    if "ClassNotFoundException" in text:
        kind, known = UnsupportedError, "UnsupportedFileSystemException"
    step = _STEPS_BY_NAME.get(known, _NEXT_STEPS.get(kind))
    return kind(f"{doing}: {names[0]}: {text}", step)


@contextmanager
def translated(doing: str) -> Iterator[None]:
    try:
        yield
    except GATEWAY_ERRORS as error:
        raise storage_error(doing, error) from error


@contextmanager
def nothing_visible_yet(doing: str) -> Iterator[None]:
    """Errors inside have changed nothing that is visible to others."""
    try:
        yield
    except GATEWAY_ERRORS as error:
        found = storage_error(doing, error)
        if isinstance(found, NoAnswerError):
            raise StorageRefusedError(found.problem, found.next_step) from error
        raise found from error


def _first_line(text: str) -> str:
    return clean_text(text.strip().split("\n", maxsplit=1)[0][:300])
