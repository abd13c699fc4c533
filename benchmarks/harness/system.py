"""The systems that are compared, and where each of them runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.harness.environment import DELTA, ICEBERG, MAIN, Environment

IN_PROCESS = "in process"
SPARK = "Spark"


@dataclass(frozen=True, slots=True)
class System:
    """An adapter with its settings.

    Systems of the same `engine` are compared. Systems with the same `process` share it, and so a Spark
    session: for differences that are smaller than those between two JVMs.
    """

    name: str
    adapter: str
    engine: str
    environment: Environment = MAIN
    settings: Mapping[str, Any] = field(default_factory=dict)
    process: str = ""

    def also(self, suffix: str, **settings: Any) -> System:
        """The same system with other settings, under another name."""
        return replace(self, name=f"{self.name}, {suffix}", settings={**self.settings, **settings})


def _adapter(module: str, name: str) -> str:
    return f"benchmarks.adapters.{module}:{name}"


HEADGATE = System("headgate", _adapter("headgate_arrow", "Headgate"), IN_PROCESS)
HEADGATE_UPKEEP = System("headgate, compaction on", _adapter("headgate_upkeep", "HeadgateUpkeep"), IN_PROCESS)
HEADGATE_BESIDE = System(
    "headgate, writers and compactors", _adapter("headgate_beside", "HeadgateBeside"), IN_PROCESS
)
HEADGATE_UNSYNCED = HEADGATE.also("fsync off", fsync=False)
PYICEBERG = System("pyiceberg", _adapter("pyiceberg_sql", "PyIceberg"), IN_PROCESS)
DELTA_RS = System("delta-rs", _adapter("delta_rs", "DeltaRs"), IN_PROCESS)

HEADGATE_SPARK = System(
    "headgate on Spark", _adapter("spark_headgate", "HeadgateSpark"), SPARK, process="Spark"
)
HEADGATE_SPARK_UNSYNCED = HEADGATE_SPARK.also("fsync off", fsync=False)
PARQUET = System("Parquet on Spark", _adapter("spark_parquet", "ParquetSpark"), SPARK, process="Spark")
PARQUET_WITH_IDS = PARQUET.also("with field ids", field_ids=True)
DELTA_SPARK = System("Delta on Spark", _adapter("spark_delta", "DeltaSpark"), SPARK, DELTA)
PARQUET_WITH_DELTA = replace(
    PARQUET, name="Parquet on Delta's Spark", environment=DELTA, process="Delta on Spark"
)
ICEBERG_SPARK = System("Iceberg on Spark", _adapter("spark_iceberg", "IcebergSpark"), SPARK, ICEBERG)
PARQUET_WITH_ICEBERG = replace(
    PARQUET, name="Parquet on Iceberg's Spark", environment=ICEBERG, process="Iceberg on Spark"
)

OF_PYTHON = (HEADGATE, DELTA_RS, PYICEBERG)
OF_SPARK = (HEADGATE_SPARK, DELTA_SPARK, ICEBERG_SPARK)
LIMITS = (PARQUET, PARQUET_WITH_DELTA, PARQUET_WITH_ICEBERG)
"""Plain files on each of the Sparks, so that differences between Spark releases are not mistaken for
differences between table formats."""
