"""How data files are read and written: by Spark's own Parquet code, or by Arrow in Python workers."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headgate.errors import InvalidInputError, UnsupportedError
from headgate.spark.store.hadoop import HadoopStore
from headgate.storage.capabilities import ReachElsewhere, StaysInside, Store

SETTING = "spark.headgate.files"
"""A setting of the session: `auto` (the default), `native` or `arrow`."""


class Way(Enum):
    """How Spark reads and writes data files."""

    NATIVE = "Spark's Parquet"
    ARROW = "Arrow in Python workers"
    CARRIED = "Arrow in Python workers, written by Spark"
    """Files with lists and maps, for storage that only Spark's Hadoop client can reach."""


def wanted_way(spark: SparkSession) -> Way | None:
    """The way that the session asks for, or None to choose the best one."""
    given = str(spark.conf.get(SETTING, "auto")).lower()
    match given:
        case "auto":
            return None
        case "native":
            return Way.NATIVE
        case "arrow":
            return Way.ARROW
    raise InvalidInputError(f"{SETTING} must be auto, native or arrow, not {given!r}", "correct the setting")


def way_to_write(spark: SparkSession, store: Store, *, lists_or_maps: bool) -> Way:
    """Spark's own writer if possible; it writes no field ids inside lists and maps."""
    _require_reach(store, "use pyarrow, or a lake on a local disk")
    wanted = wanted_way(spark)
    in_workers = Way.CARRIED if isinstance(store, HadoopStore) else Way.ARROW
    if lists_or_maps:
        if wanted is Way.NATIVE:
            raise UnsupportedError(
                "Spark's own writer writes no field ids inside lists and maps",
                "set spark.headgate.files to auto, or to arrow",
            )
        return in_workers
    match wanted:
        case Way.NATIVE:
            require_hadoop_uri(spark, store.uri())
            return Way.NATIVE
        case None:
            return Way.ARROW if hadoop_uri(spark, store.uri()) is None else Way.NATIVE
        case _:
            return in_workers


def way_to_read(spark: SparkSession, store: Store) -> Way:
    """Spark's own reader if it can reach the storage."""
    _require_reach(store, "use read_arrow, or a lake on a local disk")
    match wanted_way(spark):
        case None:
            return Way.ARROW if hadoop_uri(spark, store.uri()) is None else Way.NATIVE
        case Way.ARROW if isinstance(store, HadoopStore):
            raise UnsupportedError(
                f"the Python workers of Spark cannot reach {store.uri()}", f"set {SETTING} to auto"
            )
        case wanted:
            return wanted


def _require_reach(store: Store, step: str) -> None:
    if not isinstance(store, ReachElsewhere):
        raise UnsupportedError(f"Spark cannot reach {store.describe()}: only this process can", step)


def for_workers(store: Store) -> Store:
    """The store in the form that is sent to Spark's Python workers."""
    assert isinstance(store, ReachElsewhere), store  # otherwise this way is never chosen
    return store.elsewhere()


def hadoop_uri(spark: SparkSession, uri: str) -> str | None:
    """The URI by which the session's Hadoop client can reach `uri`, or None if it cannot.

    A plain pip install of Spark reaches local disks and HDFS. Connectors for object storage are JARs that you
    can add.
    """
    scheme, _, rest = uri.partition("://")
    names = ("s3a", "s3") if scheme in ("s3", "s3a") else (scheme,)
    return next((f"{name}://{rest}" for name in names if _has_file_system(spark, name)), None)


def require_hadoop_uri(spark: SparkSession, uri: str) -> str:
    found = hadoop_uri(spark, uri)
    if found is None:
        raise UnsupportedError(
            f"the Hadoop client of this Spark session cannot reach {uri}",
            f"set {SETTING} to auto, or add the connector (for S3: org.apache.hadoop:hadoop-aws)",
        )
    return found


def hadoop_directory(spark: SparkSession, store: Store, key: str) -> str:
    """The URI by which the Hadoop client will write to the directory `key`. Raises if it is behind a link."""
    require_inside(store, (key,))
    return f"{require_hadoop_uri(spark, store.uri())}/{key}"


def require_inside(store: Store, keys: Sequence[str]) -> None:
    """Raises if a path that Spark is about to open leads out of the lake.

    Spark opens files by their full paths, so links are checked here first. A process with write access to the
    lake can still add a link between the check and the access; only file permissions prevent that.
    """
    if isinstance(store, StaysInside):
        store.require_inside(keys)


_KNOWN: WeakKeyDictionary[SparkContext, set[str]] = WeakKeyDictionary()
"""The schemes that a Spark application is known to reach. Connectors can be added, but do not disappear."""


def _has_file_system(spark: SparkSession, scheme: str) -> bool:
    context: Any = spark.sparkContext
    known = _KNOWN.setdefault(context, set())
    if scheme in known:
        return True
    try:
        context._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(
            scheme, context._jsc.hadoopConfiguration()
        )
    except Py4JJavaError:  # unknown scheme, or its class is missing
        return False
    known.add(scheme)
    return True
