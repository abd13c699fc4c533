"""Exceptions of the Hadoop client, as errors of our tree.

The NameNode remembers its answers to the requests that must not be carried out twice, so a "no" that arrives
after the client has repeated a request is the answer to the first try as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from headgate.core.secrets import clean_text
from headgate.errors import (
    InvalidInputError,
    NoAnswerError,
    StorageError,
    StorageRefusedError,
    UnsupportedError,
)

Kind: TypeAlias = type[StorageError | InvalidInputError | UnsupportedError]

GATEWAY_ERRORS = (Py4JError, PySparkException)
"""What a call into the JVM raises."""

NOT_THERE = frozenset({"FileNotFoundException", "NoSuchFileException", "NotDirectoryException"})
IS_THERE = frozenset({"FileAlreadyExistsException", "PathExistsException"})
NOT_A_DIRECTORY = frozenset({"ParentNotDirectoryException", "PathIsNotDirectoryException"})

_RIGHTS = "get the right to read and write there, or choose another place"
_SPACE = "free some space or raise the quota, then try again"
_CONNECTOR = "add the connector for this scheme to the Spark session"

ERRORS: dict[str, Kind] = {
    # No rights.
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
    # What is there already, and what is not: values for the calls that expect them, surprises elsewhere. A
    # rename that is repeated can miss what it moved itself.
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
    # A name that it cannot hold.
    "InvalidPathException": InvalidInputError,
    "PathComponentTooLongException": InvalidInputError,
    "IllegalArgumentException": InvalidInputError,
    "URISyntaxException": InvalidInputError,
    "UnknownHostException": StorageRefusedError,
    # It is not in a state to write, and says so.
    "SafeModeException": StorageRefusedError,
    "StandbyException": StorageRefusedError,
    "RetriableException": StorageRefusedError,
    "ObserverRetryOnActiveException": StorageRefusedError,
    "CallQueueOverflowException": StorageRefusedError,
    "RetryStartFileException": StorageRefusedError,
    "NotReplicatedYetException": NoAnswerError,
    # It cannot do this at all.
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
    # Nobody can tell whether it was done.
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
"""What each exception means to us, by its name without the package. For one that is not here, its nearest
ancestor decides. A test fails when Hadoop's file systems grow one that is not here."""

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
        # One that the client had no reason to expect comes wrapped.
        names.insert(0, _simple(str(error.java_exception.getClassName())))
    return names


def _simple(name: str) -> str:
    return name.rpartition(".")[2].rpartition("$")[2]


def is_one_of(error: Py4JJavaError, names: frozenset[str]) -> bool:
    return lineage(error)[0] in names


def leads_nowhere(error: Py4JJavaError) -> bool:
    """There is nothing at the path. HDFS calls a path through a file a question of rights."""
    if is_one_of(error, NOT_THERE | NOT_A_DIRECTORY):
        return True
    return "is not a directory" in str(error.java_exception.getMessage())


def storage_error(
    doing: str, error: Py4JError | PySparkException
) -> StorageError | InvalidInputError | UnsupportedError:
    """The error of our tree for one that came through the gateway to the JVM."""
    if isinstance(error, PySparkException):
        # Spark takes some of Java's own exceptions for itself, under the same names.
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
    """Whatever fails inside has changed nothing that anybody can see."""
    try:
        yield
    except GATEWAY_ERRORS as error:
        found = storage_error(doing, error)
        if isinstance(found, NoAnswerError):
            raise StorageRefusedError(found.problem, found.next_step) from error
        raise found from error


def _first_line(text: str) -> str:
    return clean_text(text.strip().split("\n", maxsplit=1)[0][:300])
