"""Object storage through obstore: S3 and compatible services, Google Cloud Storage, Azure.

The types of obstore's exceptions say less than we need: a forbidden listing is a `GenericError`, and so is a
dropped connection. So the status of the answer and the number of retries are read from the text as well. If
the text says nothing, we assume the worse: that the request may have been carried out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

import obstore
from obstore import exceptions as reasons

from headgate.core.input.secrets import clean_text
from headgate.errors import (
    InvalidInputError,
    NoAnswerError,
    NotOfferedError,
    StorageError,
    StorageRefusedError,
    UnsupportedError,
)
from headgate.model.limits import require_size
from headgate.storage.capabilities import Page, SizedPage, Stored, Tail, TimedPage
from headgate.storage.requests import checked_key, checked_prefix

T = TypeVar("T")

KEYS_PER_PAGE = 1000
"""What S3 and compatible services return for one list request."""

Kind: TypeAlias = type[StorageError | InvalidInputError | UnsupportedError]

ERRORS: dict[type[Exception], Kind] = {
    reasons.PermissionDeniedError: StorageRefusedError,
    reasons.UnauthenticatedError: StorageRefusedError,
    reasons.InvalidPathError: InvalidInputError,
    reasons.UnknownConfigurationKeyError: InvalidInputError,
    reasons.NotSupportedError: UnsupportedError,
    NotImplementedError: UnsupportedError,
    # Answers about an object's state that the calls below turn into values; elsewhere they are unexpected,
    # and the outcome is unknown.
    reasons.NotFoundError: StorageRefusedError,
    FileNotFoundError: StorageRefusedError,
    reasons.AlreadyExistsError: StorageRefusedError,
    reasons.PreconditionError: NoAnswerError,
    reasons.NotModifiedError: NoAnswerError,
    # Time-outs, dropped connections, 5xx: the request may have been carried out.
    reasons.GenericError: NoAnswerError,
    reasons.JoinError: NoAnswerError,
    reasons.BaseError: NoAnswerError,
}
"""The meaning of each exception of obstore. A test fails when obstore gets one that is not here."""

_RAISED_BY_OBSTORE = (reasons.BaseError, OSError, NotImplementedError)
_NOT_FOUND = (FileNotFoundError, reasons.NotFoundError)
_MAY_PASS = frozenset({408, 409, 412, 425, 429})
"""The answers of the 4xx range that are temporary."""
_NOT_IMPLEMENTED = 501
"""The answers of services that do not support `If-None-Match`."""

_NO_BUCKET = ("<Code>NoSuchBucket</Code>", "<Code>ContainerNotFound</Code>")
_WRONG_REGION = "incorrectly configured region"
_ASKS_FOR_CREDENTIALS = re.compile(
    r"Error performing [A-Z]+ \S+?/(latest/(api/token|meta-data)|computeMetadata|metadata/identity)\b"
)
_GIVE_CREDENTIALS = (
    "give credentials in the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, …) or as options"
)
_NEXT_STEPS: dict[str, str] = {
    "status code: 401": "check the credentials",
    "status code: 403": "check the credentials, and that they may read, write and list there",
    "status code: 404": "check that the bucket or container exists",
    _WRONG_REGION: "set the region of the bucket: AWS_REGION, or the option region",
}

_STATUS = re.compile(r"status code: (?P<status>(?P<number>\d{3})[^:<\n]*)")
_SENT_ONCE = re.compile(r"\bretries: 0,\s+max_retries:")
_CODE = re.compile(r"<Code>([^<]{1,100})</Code>")
_MESSAGE = re.compile(r"<Message>([^<]{1,300})</Message>")
_ENDPOINT = re.compile(r"Error performing [A-Z]+ (?P<place>[a-z]+://[^/?#\s]+)")
_CAUSES = (
    re.compile(r'\bmessage: "([^"]{1,100})"'),
    re.compile(r'ConnectError\(\s*"([^"]{1,100})"'),
    re.compile(r"\bkind: (Timeout)\b"),
)


def storage_error(doing: str, error: Exception) -> StorageError | InvalidInputError | UnsupportedError:
    """The error for an exception of obstore. Contains no credentials."""
    text = str(error)
    step = next((step for sign, step in _NEXT_STEPS.items() if sign in text), None)
    if _ASKS_FOR_CREDENTIALS.search(text):
        # Without credentials, obstore asks the machine it runs on. The request itself was never sent.
        return StorageRefusedError(f"{doing}: there are no credentials ({_reason(text)})", _GIVE_CREDENTIALS)
    return _kind(error, text)(f"{doing}: {clean_text(_reason(text))}", step)


def _kind(error: Exception, text: str) -> Kind:
    kind = next((ERRORS[base] for base in type(error).__mro__ if base in ERRORS), NoAnswerError)
    if kind is NoAnswerError and _status(text) == _NOT_IMPLEMENTED:
        return NotOfferedError
    if kind is NoAnswerError and _says_no(text):
        kind = StorageRefusedError
    # obstore retries a request that got no answer. A "no" to the retry says nothing about the first one.
    if kind is StorageRefusedError and not _SENT_ONCE.search(text):
        return NoAnswerError
    return kind


def _says_no(text: str) -> bool:
    status = _status(text)
    if status is None:
        return _WRONG_REGION in text
    return 400 <= status < 500 and status not in _MAY_PASS


def _status(text: str) -> int | None:
    found = _STATUS.search(text)
    return None if found is None else int(found["number"])


def _reason(text: str) -> str:
    """What happened, in one line for people."""
    place, status = _ENDPOINT.search(text), _STATUS.search(text)
    if place is None or (status is None and _WRONG_REGION in text):
        return text.strip().split("\n", maxsplit=1)[0][:300]
    if status is None:
        cause = next((found[1] for pattern in _CAUSES if (found := pattern.search(text))), "connection lost")
        return f"no answer from {place['place']} ({cause})"
    details = [found[1] for pattern in (_CODE, _MESSAGE) if (found := pattern.search(text))]
    return ": ".join([f"{place['place']} answered {status['status'].strip()}", *details])


_client_process: int | None = None


def _refuse_after_fork() -> None:
    """Stops a forked child before it calls obstore.

    The threads of obstore do not survive a fork, but their event queue is shared: a request of the child
    would wait forever, and can make the requests of its parent wait forever, too.
    """
    global _client_process
    process = os.getpid()
    if _client_process is None:
        _client_process = process
    if _client_process != process:
        raise UnsupportedError(
            "this process was forked from one that used object storage, and cannot use it itself",
            "start processes by spawn: multiprocessing.get_context('spawn')",
        )


PANIC = "PanicException"
"""Raised by code in Rust that ended unexpectedly. Not an `Exception`, and its class cannot be imported."""


class ObjectStore:
    """Makes the promise `PutIfAbsent` (the probe finds out whether the service keeps it).

    Renaming is not offered: object storage copies and deletes, which is not one step. A missing object and a
    missing bucket are distinguished: the latter is an error. `settings` are those that the store was opened
    with, if they describe it completely.
    """

    def __init__(
        self, store: Any, url: str, *, keys_per_page: int = KEYS_PER_PAGE, settings: Hashable | None = None
    ) -> None:
        self._store = store
        self._url = url
        self._settings = settings
        self._keys_per_page = keys_per_page

    def place(self) -> Hashable | None:
        return None if self._settings is None else (self._url, self._settings)

    def describe(self) -> str:
        return self._url

    def uri(self) -> str:
        return self._url

    def elsewhere(self) -> ObjectStore:
        return self

    def get(self, key: str) -> bytes | None:
        def whole() -> bytes:
            found = obstore.get(self._store, key)
            require_size(key, found.meta["size"])  # its bytes have not arrived yet
            return bytes(found.bytes())

        return self._read_from(key, whole)

    def tail(self, key: str, length_bytes: int) -> Tail | None:
        return self._read_from(key, lambda: self._end_of(key, length_bytes))

    def _end_of(self, key: str, length_bytes: int) -> Tail:
        try:
            found = obstore.get(self._store, key, options={"range": {"suffix": length_bytes}})
        except reasons.NotSupportedError:  # Azure returns no tail of an object without the start of the range
            found = obstore.get(self._store, key)
            size = found.meta["size"]  # its bytes have not arrived yet
            if size <= length_bytes:
                return Tail(bytes(found.bytes()), size)
            start = size - length_bytes
            data = obstore.get_range(self._store, key, start=start, end=size)
            return Tail(bytes(data), size)
        return Tail(bytes(found.bytes()), found.meta["size"])

    def ranges(self, key: str, ranges: Sequence[range]) -> list[bytes] | None:
        starts, ends = [part.start for part in ranges], [part.stop for part in ranges]

        def parts() -> list[bytes]:
            return [bytes(part) for part in obstore.get_ranges(self._store, key, starts=starts, ends=ends)]

        return self._read_from(key, parts)

    def _read_from(self, key: str, read: Callable[[], T]) -> T | None:
        checked_key(key)
        with self._translated(f"cannot read {self._url}/{key}"):
            try:
                return read()
            except _NOT_FOUND as error:
                _refuse_missing_bucket(error)
                return None

    def put(self, key: str, data: bytes) -> None:
        checked_key(key)
        with self._translated(f"cannot write {self._url}/{key}"):
            obstore.put(self._store, key, data, use_multipart=False)

    def put_in_parts(self, key: str, parts: Iterable[bytes]) -> None:
        checked_key(key)
        with self._translated(f"cannot write {self._url}/{key}"):
            # Not obstore.put: it asks for the parts inside of its event loop, where they could not be read
            # from object storage. Not `with`: that completes the object also after an error. One that is
            # never closed stays invisible.
            writer = obstore.open_writer(self._store, key)
            for part in parts:
                writer.write(part)
            writer.close()

    def put_if_absent(self, key: str, data: bytes) -> bool:
        checked_key(key)
        with self._translated(f"cannot create {self._url}/{key}"):
            try:
                obstore.put(self._store, key, data, mode="create", use_multipart=False)
            except (reasons.AlreadyExistsError, reasons.PreconditionError):
                return False
        return True

    def delete(self, key: str) -> None:
        checked_key(key)
        with self._translated(f"cannot delete {self._url}/{key}"):
            try:
                obstore.delete(self._store, key)
            except _NOT_FOUND as error:
                _refuse_missing_bucket(error)

    def list_page(self, prefix: str, after: str | None = None) -> Page:
        page = self.list_sizes(prefix, after)
        return Page(tuple(key for key, _ in page.sizes), page.complete)

    def list_sizes(self, prefix: str, after: str | None = None) -> SizedPage:
        page = self.list_times(prefix, after)
        return SizedPage(tuple((one.key, one.size_bytes) for one in page.objects), page.complete)

    def list_times(self, prefix: str, after: str | None = None) -> TimedPage:
        checked_prefix(prefix)
        with self._translated(f"cannot list {self._url}/{prefix}"):
            stream = obstore.list(
                self._store, prefix.rstrip("/") or None, offset=after, chunk_size=self._keys_per_page
            )
            found = [_stored(entry) for entry in next(iter(stream), [])]
            keys = [one.key for one in found]
            if keys == sorted(keys):
                return TimedPage(tuple(found), complete=len(found) < self._keys_per_page)
            # No order to continue from (S3 directory buckets): the whole listing, as it comes.
            found.extend(_stored(entry) for chunk in stream for entry in chunk)
            return TimedPage(tuple(found), complete=True)

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        _refuse_after_fork()
        try:
            yield
        except _RAISED_BY_OBSTORE as error:
            # Not chained: the text of obstore's error contains whole URLs, which can be signed.
            raise storage_error(doing, error) from None
        except BaseException as error:
            if type(error).__name__ != PANIC:
                raise
            # How far it came is unknown. Its text may contain what it could not handle.
            raise NoAnswerError(
                f"{doing}: the storage client crashed",
                "check the credentials and options of the storage for line breaks and other odd characters",
            ) from None


def _stored(entry: Any) -> Stored:
    return Stored(entry["path"], entry["size"], entry["last_modified"])


def _refuse_missing_bucket(error: Exception) -> None:
    if any(sign in str(error) for sign in _NO_BUCKET):
        raise error
