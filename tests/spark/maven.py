"""JARs that Maven resolves. Where it cannot, tests that need them are skipped with a reason."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyspark
import pytest

from headgate.errors import UnsupportedError
from tests.servers import maven
from tests.servers.maven import Artifact

__all__ = ["JARS", "Artifact", "hadoop_version", "resolved"]

JARS = Path(pyspark.__file__).parent / "jars"


def hadoop_version() -> str:
    """The version of the Hadoop client that comes with pyspark."""
    (jar,) = JARS.glob("hadoop-client-api-*.jar")
    return jar.stem.removeprefix("hadoop-client-api-")


def resolved(artifacts: Sequence[Artifact], place: Path) -> list[Path]:
    """The JARs of the artifacts; skips the test if Maven cannot get them soon. Works in `place`."""
    try:
        return maven.resolved(artifacts, place)
    except UnsupportedError as error:
        pytest.skip(error.problem)
