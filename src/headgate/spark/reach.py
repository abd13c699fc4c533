"""Which way data moves: through Spark's own Parquet reader and writer, or through Arrow in Python workers."""

from __future__ import annotations

from enum import Enum
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headgate.errors import InvalidInputError, UnsupportedError
from headgate.spark.hadoop import HadoopStore
from headgate.storage.capabilities import ReachElsewhere, Store

SETTING = "spark.headgate.files"
"""A setting of the session: `auto` (the default), `native` or `arrow`."""


class Way(Enum):
    """How Spark reads and writes data files."""

    NATIVE = "Spark's Parquet"
    ARROW = "Arrow in Python workers"
    CARRIED = "Arrow in Python workers, put by Spark"
    """Files with lists and maps, for storage that only Spark's Hadoop client reaches."""


def wanted_way(spark: SparkSession) -> Way | None:
    """The way that the session is set to, or None for the best one."""
    given = str(spark.conf.get(SETTING, "auto")).lower()
    match given:
        case "auto":
            return None
        case "native":
            return Way.NATIVE
        case "arrow":
            return Way.ARROW
    raise InvalidInputError(f"the setting {SETTING} is {given!r}", "set it to auto, native or arrow")


def way_to_write(spark: SparkSession, store: Store, *, lists_or_maps: bool) -> Way:
    """Spark's own writer where it can; it gives no field ids inside lists and maps."""
    _require_reach(store, "use pyarrow, or a lake on a disk")
    wanted = wanted_way(spark)
    in_workers = Way.CARRIED if isinstance(store, HadoopStore) else Way.ARROW
    if lists_or_maps:
        if wanted is Way.NATIVE:
            raise UnsupportedError(
                "Spark's own writer gives no field ids inside lists and maps",
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
    """Spark's own reader where it reaches the storage."""
    _require_reach(store, "use read_arrow, or a lake on a disk")
    match wanted_way(spark):
        case None:
            return Way.ARROW if hadoop_uri(spark, store.uri()) is None else Way.NATIVE
        case Way.ARROW if isinstance(store, HadoopStore):
            raise UnsupportedError(
                f"the Python workers of Spark do not reach {store.uri()}", f"set {SETTING} to auto"
            )
        case wanted:
            return wanted


def _require_reach(store: Store, step: str) -> None:
    if not isinstance(store, ReachElsewhere):
        raise UnsupportedError(f"Spark cannot reach {store.describe()}: only this process does", step)


def for_workers(store: Store) -> Store:
    """The store as it is sent to the Python workers of Spark."""
    assert isinstance(store, ReachElsewhere), store  # the way was chosen by it
    return store.elsewhere()


def hadoop_uri(spark: SparkSession, uri: str) -> str | None:
    """The name by which the Hadoop client of the session reaches `uri`, or None if it cannot.

    A plain pip install of Spark reaches local disks and HDFS; connectors for object storage are JARs that a
    user may have added.
    """
    scheme, _, rest = uri.partition("://")
    names = ("s3a", "s3") if scheme in ("s3", "s3a") else (scheme,)
    return next((f"{name}://{rest}" for name in names if _has_file_system(spark, name)), None)


def require_hadoop_uri(spark: SparkSession, uri: str) -> str:
    found = hadoop_uri(spark, uri)
    if found is None:
        raise UnsupportedError(
            f"the Hadoop client of this Spark session does not reach {uri}",
            f"set {SETTING} to auto, or add the connector (for S3: org.apache.hadoop:hadoop-aws)",
        )
    return found


_KNOWN: WeakKeyDictionary[SparkContext, set[str]] = WeakKeyDictionary()
"""The schemes that a Spark application is known to reach. Connectors can be added, and do not go away."""


def _has_file_system(spark: SparkSession, scheme: str) -> bool:
    context: Any = spark.sparkContext
    known = _KNOWN.setdefault(context, set())
    if scheme in known:
        return True
    try:
        context._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(
            scheme, context._jsc.hadoopConfiguration()
        )
    except Py4JJavaError:  # no such scheme, or its class is not there
        return False
    known.add(scheme)
    return True
