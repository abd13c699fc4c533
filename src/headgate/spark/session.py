"""Spark sessions for Headgate: one with good defaults, or your own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from headgate.errors import InvalidInputError, UnsupportedError

OLDEST_JAVA = 17
JAVA_ADVICE = (
    "install it (Debian: sudo apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17), "
    "or set JAVA_HOME if it is installed"
)

REQUIRED: Mapping[str, str] = MappingProxyType(
    {
        # Columns are matched by Iceberg's field ids, so that renames and reorders are correct.
        "spark.sql.parquet.fieldId.read.enabled": "true",
        "spark.sql.parquet.fieldId.write.enabled": "true",
        # Iceberg's timestamp type; Spark's default is a deprecated type that other engines misread.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Dates before 1582 in the proleptic Gregorian calendar, which Iceberg uses.
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        # Headgate knows the files; a job that lists them costs more than the query.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    }
)
"""Settings that reads and writes rely on; set on every session that Headgate uses."""

LOOPBACK = "127.0.0.1"
QUIET_LOG = Path(__file__).with_name("quiet-log4j2.properties")

DEFAULTS: Mapping[str, str] = MappingProxyType(
    {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={QUIET_LOG.as_uri()}",
        "spark.sql.shuffle.partitions": "64",
    }
)
"""Defaults of `session()` that a caller can override."""


def session(master: str = "local[*]", *, app_name: str = "headgate", **conf: object) -> SparkSession:
    """Returns the running Spark session, or starts one with settings that suit Headgate.

    Pass Spark settings as keyword arguments with underscores instead of dots, or as a dictionary:
    `session(spark_driver_memory="4g")`, `session(**{"spark.driver.memory": "4g"})`. If a session is already
    running, its settings are changed where Spark allows it. Raises `UnsupportedError` if Java is not
    installed.
    """
    require_java()
    given = {_setting(name): _value(name, value) for name, value in conf.items()}
    local = master.startswith("local")
    if local:
        # Spark's own default is the first python3 on the PATH, which may not have headgate installed.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        # Otherwise Spark looks up an address of this machine, and prints a warning about its choice.
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    builder: Any = SparkSession.builder
    builder = builder.master(master).appName(app_name)
    for name, value in {**DEFAULTS, **REQUIRED, **given}.items():
        # On a cluster the executors must find the driver; Spark knows its address better than we do.
        if local or value != LOOPBACK or name in given:
            builder = builder.config(name, value)
    spark: SparkSession = builder.getOrCreate()
    return prepared(spark)


def running_session() -> SparkSession | None:
    """The session that runs in this process, with its settings unchanged; None if there is none."""
    active = SparkSession.getActiveSession()
    if active is not None or SparkContext._active_spark_context is None:
        return active
    # Other threads have no active session of their own.
    builder: Any = SparkSession.builder
    running: SparkSession = builder.getOrCreate()
    return running


def prepared(spark: SparkSession) -> SparkSession:
    """The user's session with the settings that Headgate relies on."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise UnsupportedError(
            "Spark Connect gives no access to the Hadoop client that Headgate uses",
            "use a classic session, in the process that runs the driver",
        )
    if not isinstance(spark, SparkSession):
        raise InvalidInputError(
            f"{type(spark).__name__} is not a Spark session",
            "pass headgate.session(), or your own SparkSession",
        )
    for name, value in REQUIRED.items():
        if spark.conf.get(name, None) != value:
            spark.conf.set(name, value)
    return spark


def require_java() -> None:
    """Raises `UnsupportedError` with advice if Spark would not find a suitable Java."""
    java = java_command()
    if java is None:
        raise UnsupportedError("Spark needs Java, which is not installed on this machine", JAVA_ADVICE)
    version = java_version(java)
    if version is not None and version < OLDEST_JAVA:
        raise UnsupportedError(f"Spark needs Java {OLDEST_JAVA} or later; {java} is {version}", JAVA_ADVICE)


def java_command() -> str | None:
    """The Java that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    if home and (java := Path(home, "bin", "java")).exists():
        return str(java)
    return shutil.which("java")


def java_version(java: str) -> int | None:
    """The major version of a Java, or None if it does not print one."""
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnsupportedError(f"{java} cannot be started: {error}", JAVA_ADVICE) from error
    found = re.search(r'version "(?:1\.)?(\d+)', shown.stderr + shown.stdout)
    return None if found is None else int(found[1])


def _setting(name: str) -> str:
    return name if "." in name else name.replace("_", ".")


def _value(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise InvalidInputError(
        f"the Spark setting {name} must be a string or a number, not a {type(value).__name__}"
    )
