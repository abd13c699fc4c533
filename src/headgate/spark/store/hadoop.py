"""Hadoop file systems as a store, through the Hadoop client of a Spark session: HDFS and similar ones.

It needs no native library and no second client, and reaches whatever the session reaches, with the session's
credentials. Every call into the JVM is a round trip of a third of a millisecond, so classes are looked up
once, and a directory is read as one string.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from headgate.core.input.secrets import clean_text
from headgate.errors import InvalidInputError, StorageRefusedError, UnsupportedError
from headgate.model.limits import most_bytes, require_size
from headgate.spark.session import running_session, session
from headgate.spark.store.hadoop_errors import (
    GATEWAY_ERRORS,
    IS_THERE,
    NOT_THERE,
    is_one_of,
    leads_nowhere,
    nothing_visible_yet,
    translated,
)
from headgate.storage.capabilities import Page, Store, Stored, Tail, TimedPage
from headgate.storage.local import LocalStore
from headgate.storage.requests import checked_key, checked_prefix
from headgate.storage.walking import EMPTY, Entries, keys_below, require_shallow

T = TypeVar("T")

_PARTIAL_START, _PARTIAL_END = ".headgate-", ".partial"

LONGEST_ARRAY = (1 << 31) - 9
"""The longest array of Java, in bytes."""
TRIES_TO_ENTER_DIRECTORY = 100
"""How often a rename creates its directory again when clean-up removes it at the same time."""

CLIENT: Mapping[str, str] = MappingProxyType(
    {
        # A request is repeated if its connection breaks: after about half a second, and twice after one
        # second. The NameNode recognizes repeated requests, and returns the answer to the first one. If no
        # connection can be made at all, Hadoop applies this twice: to the connection, and to the request.
        "dfs.client.retry.policy.enabled": "true",
        "dfs.client.retry.policy.spec": "500,1,1000,2",
        "ipc.client.connect.timeout": "10000",
        "ipc.client.rpc-timeout.ms": "30000",
    }
)
"""Settings of the Hadoop client, unless the session has its own. Hadoop's defaults do not repeat a request
whose connection broke, and wait a quarter of an hour for a host that is switched off."""


def open_hadoop_store(url: str, spark: SparkSession | None = None) -> HadoopStore:
    """The store at `url`, reached by `spark`, by the running session, or by a new one."""
    return HadoopStore(spark or running_session() or session(), url)


class HadoopStore:
    """Implements `RenameNoReplace` by the file system's own rename, which HDFS executes atomically.

    An object is written completely under a hidden name first, and gets its own name by a rename. On `file:`
    URLs, for tests, the renames are those of the operating system, since Hadoop's are not atomic there.

    Limits: a key cannot be an object and a directory of objects at once, and HDFS does not allow colons in
    names. The store belongs to the process of the Spark driver: it neither pickles nor survives a fork.
    """

    def __init__(self, spark: SparkSession, url: str) -> None:
        _refuse_unclear_place(url)
        context: Any = spark.sparkContext
        self._process = os.getpid()
        self._java = _Java(context._jvm)
        with translated(f"cannot reach {clean_text(url)}"):
            configuration = _configure(self._java, context._jsc.hadoopConfiguration())
            place = self._java.path(url)
            self._files = self._java.file_context.getFileContext(place.toUri(), configuration)
            self._url = _plain(self._files.makeQualified(place).toUri())
        local = self._url.startswith("file:")
        # HDFS has no links unless its administrators enable them; on a disk anybody can create one.
        self._inside = LocalStore(Path(self._url.removeprefix("file://"))) if local else None
        self._moves: _Moves = _NioMoves(self._java) if local else _ContextMoves(self._java, self._files)

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise self._only_here()

    def elsewhere(self) -> Store:
        raise self._only_here()

    def _only_here(self) -> UnsupportedError:
        return UnsupportedError(
            f"only the driver of the Spark session can reach {self._url}, not its Python workers",
            "set spark.headgate.files to auto",
        )

    def describe(self) -> str:
        return self._url

    def uri(self) -> str:
        return self._url

    def require_inside(self, keys: Sequence[str]) -> None:
        if self._inside is not None:
            self._inside.require_inside(keys)

    def get(self, key: str) -> bytes | None:
        def whole(_: Any, stream: Any) -> bytes:
            # Asking for the length first would cost another request.
            data = bytes(stream.readNBytes(min(most_bytes(key) + 1, LONGEST_ARRAY)))
            require_size(key, len(data))
            if len(data) == LONGEST_ARRAY:
                raise UnsupportedError(f"{self._url}/{key} is too long for one array of the JVM")
            return data

        return self._read_from(key, whole)

    def tail(self, key: str, length_bytes: int) -> Tail | None:
        def end(path: Any, stream: Any) -> Tail:
            size = self._files.getFileStatus(path).getLen()
            stream.seek(max(0, size - length_bytes))
            return Tail(bytes(stream.readAllBytes()), size)

        return self._read_from(key, end)

    def ranges(self, key: str, ranges: Sequence[range]) -> list[bytes] | None:
        def parts(_: Any, stream: Any) -> list[bytes]:
            found = []
            for part in ranges:
                stream.seek(part.start)
                found.append(bytes(stream.readNBytes(len(part))))
            return found

        return self._read_from(key, parts)

    def put(self, key: str, data: bytes) -> None:
        self.put_in_parts(key, (data,))

    def put_in_parts(self, key: str, parts: Iterable[bytes]) -> None:
        target = self._path(key)
        doing = f"cannot write {self._url}/{key}"
        name = f"{_PARTIAL_START}{uuid.uuid4().hex}{_PARTIAL_END}"
        with nothing_visible_yet(doing):
            partial = self._java.path(target.getParent(), name)
        try:
            with nothing_visible_yet(doing):
                self._write(partial, parts)
            with translated(doing):
                self._moves.replace(partial, target)
        except BaseException:
            # A file that cannot be removed stays, invisible: the outcome of the write does not depend on it.
            with suppress(*GATEWAY_ERRORS):
                self._files.delete(partial, False)
            raise

    def rename_no_replace(self, source: str, target: str) -> bool:
        old, new = self._path(source), self._path(target)
        doing = f"cannot rename {self._url}/{source} to {target}"
        with translated(doing):
            for _ in range(TRIES_TO_ENTER_DIRECTORY):
                moved = self._try_move(old, new, doing)
                if moved is not None:
                    return moved
                self._files.mkdir(new.getParent(), None, True)
        raise StorageRefusedError(f"{doing}: another process keeps removing its directory")

    def delete(self, key: str) -> None:
        path = self._path(key)
        with translated(f"cannot delete {self._url}/{key}"):
            if self._is_file(path):
                self._remove(path)
                self._remove_empty_directories(key)

    def list_page(self, prefix: str, after: str | None = None) -> Page:
        self._refuse_colon(checked_prefix(prefix))
        self._require_own_process()
        self.require_inside([prefix.rstrip("/")])
        with translated(f"cannot list {self._url}/{prefix}"):
            return Page(tuple(sorted(keys_below(self._entries, prefix, after or ""))), complete=True)

    def list_times(self, prefix: str, after: str | None = None) -> TimedPage:
        found = sorted(self._list(prefix, partial=False), key=lambda one: one.key)
        return TimedPage(tuple(one for one in found if one.key > (after or "")), complete=True)

    def leftovers(self, prefix: str) -> tuple[Stored, ...]:
        return tuple(self._list(prefix, partial=True))

    def remove_leftover(self, key: str) -> None:
        if not _is_partial(checked_key(key).rpartition("/")[2]):
            raise InvalidInputError(f"{key!r} is not a half-written file")
        self._require_own_process()
        self.require_inside([key.rpartition("/")[0]])
        with translated(f"cannot delete {self._url}/{key}"):
            self._remove(self._java.path(f"{self._url}/{key}"))

    def _list(self, prefix: str, *, partial: bool) -> list[Stored]:
        """The files below a prefix: only half-written ones, or all others."""
        self._refuse_colon(checked_prefix(prefix))
        self._require_own_process()
        self.require_inside([prefix.rstrip("/")])
        with translated(f"cannot list {self._url}/{prefix}"):
            return list(self._list_below(prefix, partial))

    def _list_below(self, top: str, partial: bool) -> Iterator[Stored]:
        left = [top]
        while left:
            prefix = left.pop()
            require_shallow(prefix)
            try:
                statuses = self._files.util().listStatus(self._java.path(f"{self._url}/{prefix}"))
            except Py4JJavaError as error:
                if leads_nowhere(error):
                    continue
                raise
            for entry, status in zip(self._java.named(statuses), statuses, strict=True):
                if entry.is_directory and not self._is_link(f"{prefix}{entry.name}"):
                    left.append(f"{prefix}{entry.name}/")
                elif _is_partial(entry.name) is partial:
                    seconds = status.getModificationTime() / 1000
                    yield Stored.of(f"{prefix}{entry.name}", int(status.getLen()), seconds)

    # --- files -----------------------------------------------------------------------------------------

    def _path(self, key: str) -> Any:
        name = checked_key(key).rpartition("/")[2]
        if _is_partial(name):
            raise InvalidInputError(f"{key!r} is a name that is reserved for half-written files")
        self._refuse_colon(key)
        self._require_own_process()
        self.require_inside([key])
        return self._java.path(f"{self._url}/{key}")

    def _refuse_colon(self, key: str) -> None:
        if ":" in key and not self._url.startswith("file:"):
            raise InvalidInputError(f"{key!r} contains a colon, which HDFS does not allow")

    def _require_own_process(self) -> None:
        if os.getpid() != self._process:
            raise UnsupportedError(
                f"this process was forked from the one whose Spark session reaches {self._url}",
                "start processes with spawn: multiprocessing.get_context('spawn')",
            )

    def _read_from(self, key: str, read: Callable[[Any, Any], T]) -> T | None:
        """The result of `read` for the path and the open stream; None if there is no such object."""
        path = self._path(key)
        with translated(f"cannot read {self._url}/{key}"):
            try:
                stream = self._files.open(path)
                try:
                    return read(path, stream)
                finally:
                    stream.close()
            except Py4JJavaError as error:
                if leads_nowhere(error):
                    return None
                raise

    def _write(self, path: Any, parts: Iterable[bytes]) -> None:
        """Writes a new file, completely and synced."""
        stream = self._files.create(path, self._java.new_file, self._java.with_parents)
        try:
            for part in parts:
                stream.write(bytearray(part), 0, len(part))
            stream.hsync()
        finally:
            stream.close()

    def _try_move(self, old: Any, new: Any, doing: str) -> bool | None:
        """Tries to move once. Returns None if the directory of `new` is missing."""
        if not self._is_file(old):
            return False
        try:
            return self._moves.move(old, new)
        except Py4JJavaError as error:
            if is_one_of(error, IS_THERE):
                if self._is_file(new) or not self._exists(new):
                    return False
                raise StorageRefusedError(f"{doing}: a directory with this name exists") from error
            if is_one_of(error, NOT_THERE):
                return None
            raise

    def _is_file(self, path: Any) -> bool:
        try:
            return bool(self._files.getFileStatus(path).isFile())
        except Py4JJavaError as error:
            if leads_nowhere(error):
                return False
            raise

    def _exists(self, path: Any) -> bool:
        return bool(self._files.util().exists(path))

    def _remove(self, path: Any) -> None:
        try:
            self._files.delete(path, False)
        except Py4JJavaError as error:
            if not is_one_of(error, NOT_THERE):
                raise

    def _remove_empty_directories(self, key: str) -> None:
        """Removes empty directories above an object that existed: so these are directories."""
        directory = key.rpartition("/")[0]
        while directory:
            try:
                self._moves.remove_empty(self._java.path(f"{self._url}/{directory}"))
            except Py4JJavaError:  # not empty, already gone, or no permission: it may stay
                return
            directory = directory.rpartition("/")[0]

    def _entries(self, prefix: str) -> Entries:
        directory = self._java.path(f"{self._url}/{prefix}" if prefix else f"{self._url}/")
        try:
            found = self._files.util().listStatus(directory)
        except Py4JJavaError as error:
            if leads_nowhere(error):
                return EMPTY
            raise
        named = self._java.named(found)
        # Listing a file returns the file itself.
        if len(named) == 1 and named[0].path == str(directory.toString()):
            return EMPTY
        directories = frozenset(
            entry.name for entry in named if entry.is_directory and not self._is_link(f"{prefix}{entry.name}")
        )
        names = frozenset(entry.name for entry in named if not _is_partial(entry.name))
        return Entries(names - directories, directories)

    def _is_link(self, below: str) -> bool:
        return self._inside is not None and Path(self._url.removeprefix("file://"), below).is_symlink()


# --- the JVM side ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Entry:
    path: str
    is_directory: bool

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class _Java:
    """Classes and constants of the JVM, looked up once: each part of a dotted name is a round trip."""

    def __init__(self, jvm: Any) -> None:
        hadoop = jvm.org.apache.hadoop
        self.path = hadoop.fs.Path
        self.configuration = hadoop.conf.Configuration
        self.file_context = hadoop.fs.FileContext
        self.new_file = jvm.java.util.EnumSet.of(hadoop.fs.CreateFlag.CREATE)
        self.with_parents = _array(
            jvm,
            "org.apache.hadoop.fs.Options$CreateOpts",
            getattr(hadoop.fs, "Options$CreateOpts").createParent(),
        )
        rename = getattr(hadoop.fs, "Options$Rename")
        self.overwriting = _array(jvm, "org.apache.hadoop.fs.Options$Rename", rename.OVERWRITE)
        self.keeping = _array(jvm, "org.apache.hadoop.fs.Options$Rename", rename.NONE)
        self.nio = jvm.java.nio.file.Files
        self.file = jvm.java.io.File
        self.in_one_step = _array(
            jvm, "java.nio.file.CopyOption", jvm.java.nio.file.StandardCopyOption.ATOMIC_MOVE
        )
        self._object = jvm.java.lang.Class.forName("java.lang.Object")
        self._new_array = jvm.java.lang.reflect.Array.newInstance
        self._copy = jvm.java.lang.System.arraycopy
        self._as_list = jvm.java.util.Arrays.asList
        self._paths = hadoop.fs.FileUtil.stat2Paths
        self._joined = hadoop.util.StringUtils.join

    def named(self, statuses: Any) -> list[_Entry]:
        """The paths of file statuses, and which are directories, in a constant number of round trips.

        The string form of a status begins with its class, its path and whether it is a directory. If a file
        system formats it differently, each status is queried.
        """
        if not (paths := self._texts(self._paths(statuses))):
            return []
        entries = []
        for number, (path, text) in enumerate(zip(paths, self._texts(statuses), strict=True)):
            said = text.partition(f"{{path={path}; isDirectory=")[2].partition(";")[0]
            is_directory = said == "true" if said in ("true", "false") else statuses[number].isDirectory()
            entries.append(_Entry(path, is_directory))
        return entries

    def _texts(self, objects: Any) -> list[str]:
        # A copy, since the gateway does not accept a typed array where an array of objects is expected.
        count = len(objects)
        copy = self._new_array(self._object, count)
        self._copy(objects, 0, copy, 0, count)
        return str(self._joined(_SEPARATOR, self._as_list(copy))).split(_SEPARATOR) if count else []


_SEPARATOR = "\x00"
"""A character that no file name contains."""


class _Moves(Protocol):
    """The steps that make a change visible, each of them atomic."""

    def replace(self, source: Any, target: Any) -> None: ...

    def move(self, source: Any, target: Any) -> bool:
        """Returns False if the source no longer exists."""
        ...

    def remove_empty(self, directory: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class _ContextMoves:
    """The steps on HDFS: each is one request to the NameNode."""

    java: _Java
    files: Any

    def replace(self, source: Any, target: Any) -> None:
        self.files.rename(source, target, self.java.overwriting)

    def move(self, source: Any, target: Any) -> bool:
        self.files.rename(source, target, self.java.keeping)
        return True

    def remove_empty(self, directory: Any) -> None:
        self.files.delete(directory, False)


@dataclass(frozen=True, slots=True)
class _NioMoves:
    """The steps of the operating system."""

    java: _Java

    def replace(self, source: Any, target: Any) -> None:
        self.java.nio.move(self._native(source), self._native(target), self.java.in_one_step)

    def move(self, source: Any, target: Any) -> bool:
        # A hard link does not replace its target. Java's move replaces it, or is not atomic. If two processes
        # move the same source, the one that removes the old name has moved it.
        self.java.nio.createLink(self._native(target), self._native(source))
        if self.java.nio.deleteIfExists(self._native(source)):
            return True
        self.java.nio.delete(self._native(target))
        return False

    def remove_empty(self, directory: Any) -> None:
        self.java.nio.delete(self._native(directory))

    def _native(self, path: Any) -> Any:
        return self.java.file(path.toUri().getPath()).toPath()


def _array(jvm: Any, kind: str, *values: Any) -> Any:
    array = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName(kind), len(values))
    for position, value in enumerate(values):
        array[position] = value
    return array


def _configure(java: _Java, of_session: Any) -> Any:
    configuration = java.configuration(of_session)
    for name, value in CLIENT.items():
        sources = configuration.getPropertySources(name)
        if sources is None or all(str(source).endswith("-default.xml") for source in sources):
            configuration.set(name, value)
    # Without checksum files, whose names could collide with keys.
    configuration.set("fs.AbstractFileSystem.file.impl", "org.apache.hadoop.fs.local.RawLocalFs")
    return configuration


def _plain(uri: Any) -> str:
    """`scheme://authority/path`, with no character escaped: Hadoop reads names literally."""
    return f"{uri.getScheme()}://{uri.getAuthority() or ''}{uri.getPath()}".rstrip("/")


def _refuse_unclear_place(url: str) -> None:
    path = url.partition("://")[2].partition("/")[2]
    if not path.strip("/"):
        raise InvalidInputError(
            f"{clean_text(url)!r} does not name a directory", "write hdfs://host:port/path"
        )
    if any(part in (".", "..") for part in path.split("/")):
        raise InvalidInputError(f"{clean_text(url)!r} is not a plain location", "leave out '.' and '..'")


def _is_partial(name: str) -> bool:
    return name.startswith(_PARTIAL_START) and name.endswith(_PARTIAL_END)
