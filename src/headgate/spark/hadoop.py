"""Hadoop file systems as a store, through the Hadoop client of a Spark session: HDFS and its kin.

No native library and no second client: whatever the session reaches, with the credentials that it has.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from headgate.errors import InvalidInputError, NoAnswerError, StorageRefusedError, UnsupportedError
from headgate.spark.session import session
from headgate.storage.capabilities import Page, Tail
from headgate.storage.keys import checked_key, checked_prefix

SCHEMES = ("hdfs", "viewfs", "webhdfs", "swebhdfs", "ofs", "o3fs")
"""Schemes of places that only the Hadoop client knows."""

_PARTIAL_START, _PARTIAL_END = ".headgate-", ".partial"
_NOT_THERE = ("FileNotFoundException", "NoSuchFileException", "ParentNotDirectoryException")
_IS_THERE = ("FileAlreadyExistsException",)
# After these the file system has certainly changed nothing.
_CERTAIN = (
    "AccessControlException",
    "AccessDeniedException",
    "QuotaExceededException",
    "DSQuotaExceededException",
    "NSQuotaExceededException",
    "SafeModeException",
    "InvalidPathException",
    "FSLimitException$PathComponentTooLongException",
)


def open_hadoop_store(url: str, spark: SparkSession | None = None) -> HadoopStore:
    """The store at `url`, reached by `spark`, by the session that is running, or by a new one."""
    found = spark or SparkSession.getActiveSession() or session()
    return HadoopStore(found, url)


class HadoopStore:
    """Gives `RenameNoReplace` by the file system's own rename, which HDFS carries out in one step.

    An object is written completely under a hidden name first, and gets its own name by a rename. On `file:`
    URLs, for tests, the two renames are those of the operating system, since Hadoop's are not atomic there.
    """

    def __init__(self, spark: SparkSession, url: str) -> None:
        context: Any = spark.sparkContext
        self._jvm: Any = context._jvm
        self._url = url.rstrip("/")
        self._local = self._url.startswith("file:")
        hadoop = self._jvm.org.apache.hadoop
        with _translated(f"cannot reach {self._url}"):
            self._root = hadoop.fs.Path(self._url)
            self._files = self._root.getFileSystem(context._jsc.hadoopConfiguration())
            self._context = hadoop.fs.FileContext.getFileContext(
                self._root.toUri(), context._jsc.hadoopConfiguration()
            )

    def describe(self) -> str:
        return self._url

    def uri(self) -> str:
        return self._url

    def get(self, key: str) -> bytes | None:
        path = self._path(key)
        with _translated(f"cannot read {self._url}/{key}"):
            try:
                stream = self._files.open(path)
            except Py4JJavaError as error:
                if _kind(error) in _NOT_THERE or self._is_directory(path):
                    return None
                raise
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def tail(self, key: str, length_bytes: int) -> Tail | None:
        path = self._path(key)
        with _translated(f"cannot read {self._url}/{key}"):
            try:
                size = self._files.getFileStatus(path).getLen()
                stream = self._files.open(path)
            except Py4JJavaError as error:
                if _kind(error) in _NOT_THERE:
                    return None
                raise
            try:
                stream.seek(max(0, size - length_bytes))
                return Tail(bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream)), size)
            finally:
                stream.close()

    def put(self, key: str, data: bytes) -> None:
        target = self._path(key)
        doing = f"cannot write {self._url}/{key}"
        partial = self._written(target, data, doing)
        with _translated(doing):
            self._replace(partial, target)

    def rename_no_replace(self, source: str, target: str) -> bool:
        old, new = self._path(source), self._path(target)
        with _translated(f"cannot rename {self._url}/{source} to {target}"):
            try:
                self._files.mkdirs(new.getParent())
                self._move(old, new)
            except Py4JJavaError as error:
                if _kind(error) in (*_IS_THERE, *_NOT_THERE):
                    return False
                raise
        return True

    def delete(self, key: str) -> None:
        path = self._path(key)
        with _translated(f"cannot delete {self._url}/{key}"):
            if not self._is_directory(path):
                self._files.delete(path, False)

    def list_page(self, prefix: str, after: str | None = None) -> Page:
        checked_prefix(prefix)
        top = self._root if not prefix else self._path(prefix.rstrip("/"))
        with _translated(f"cannot list {self._url}/{prefix}"):
            keys = sorted(key for key in self._walk(top, prefix) if key > (after or ""))
        return Page(tuple(keys), complete=True)

    # --- files -----------------------------------------------------------------------------------------

    def _path(self, key: str) -> Any:
        if checked_key(key).rpartition("/")[2].startswith(_PARTIAL_START):
            raise InvalidInputError(f"{key!r} is a name for half-written files")
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._url}/{key}")

    def _written(self, target: Any, data: bytes, doing: str) -> Any:
        """A complete and synced hidden file beside `target`. Nobody sees it, so nothing is in doubt."""
        name = f"{_PARTIAL_START}{uuid.uuid4().hex}{_PARTIAL_END}"
        partial = self._jvm.org.apache.hadoop.fs.Path(target.getParent(), name)
        try:
            stream = self._files.create(partial, False)
            try:
                stream.write(bytearray(data), 0, len(data))
                stream.hsync()
            finally:
                stream.close()
        except Py4JError as error:
            raise StorageRefusedError(f"{doing}: {_reason(error)}") from error
        return partial

    def _replace(self, source: Any, target: Any) -> None:
        if self._local:
            options = self._array("java.nio.file.CopyOption", self._copy_option("ATOMIC_MOVE"))
            self._jvm.java.nio.file.Files.move(self._nio(source), self._nio(target), options)
            return
        rename = self._jvm.org.apache.hadoop.fs.Options.Rename
        self._context.rename(
            source, target, self._array("org.apache.hadoop.fs.Options$Rename", rename.OVERWRITE)
        )

    def _move(self, source: Any, target: Any) -> None:
        if self._local:
            # A hard link refuses to replace; a move of Java's does not, or not in one step.
            self._jvm.java.nio.file.Files.createLink(self._nio(target), self._nio(source))
            self._jvm.java.nio.file.Files.delete(self._nio(source))
            return
        rename = self._jvm.org.apache.hadoop.fs.Options.Rename
        self._context.rename(source, target, self._array("org.apache.hadoop.fs.Options$Rename", rename.NONE))

    def _nio(self, path: Any) -> Any:
        return self._jvm.java.io.File(path.toUri().getPath()).toPath()

    def _copy_option(self, name: str) -> Any:
        return getattr(self._jvm.java.nio.file.StandardCopyOption, name)

    def _array(self, kind: str, *values: Any) -> Any:
        array = self._jvm.java.lang.reflect.Array.newInstance(
            self._jvm.java.lang.Class.forName(kind), len(values)
        )
        for position, value in enumerate(values):
            array[position] = value
        return array

    def _is_directory(self, path: Any) -> bool:
        try:
            return bool(self._files.getFileStatus(path).isDirectory())
        except Py4JJavaError as error:
            if _kind(error) in _NOT_THERE:
                return False
            raise

    def _walk(self, directory: Any, prefix: str) -> Iterator[str]:
        """All keys below a directory, in order: what sorts later is observed later."""
        try:
            found = self._files.listStatus(directory)
        except Py4JJavaError as error:
            if _kind(error) in _NOT_THERE:
                return
            raise
        entries = [(status.getPath(), bool(status.isDirectory())) for status in found]
        named = [(path.getName() + ("/" if inside else ""), path, inside) for path, inside in entries]
        for name, path, inside in sorted(named, key=lambda entry: entry[0]):
            if inside:
                yield from self._walk(path, prefix + name)
            elif not name.startswith((_PARTIAL_START, ".")) or not name.endswith((_PARTIAL_END, ".crc")):
                yield prefix + name


def _kind(error: Py4JJavaError) -> str:
    """The name of the Java exception, without its package."""
    return str(error.java_exception.getClass().getName()).rpartition(".")[2]


def _reason(error: Py4JError) -> str:
    if isinstance(error, Py4JJavaError):
        message = str(error.java_exception.getMessage() or "").strip().split("\n", maxsplit=1)[0]
        return f"{_kind(error)}: {message}"[:300]
    return f"the Spark session does not answer: {error}"[:300]


@contextmanager
def _translated(doing: str) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        kind = _kind(error)
        if kind == "UnsupportedFileSystemException":
            raise UnsupportedError(
                f"{doing}: {_reason(error)}", "add the connector to the session"
            ) from error
        certain = kind in _CERTAIN or "No space left" in _reason(error)
        raise (StorageRefusedError if certain else NoAnswerError)(f"{doing}: {_reason(error)}") from error
    except Py4JError as error:
        raise NoAnswerError(f"{doing}: {_reason(error)}") from error
