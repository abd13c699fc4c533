"""JARs that Maven resolves, into its own cache. Elsewhere, tests that need them are skipped with a reason."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

PATIENCE_SECONDS = 120

JARS = Path(pyspark.__file__).parent / "jars"
_PROJECT = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>test</groupId><artifactId>test</artifactId><version>1</version>
<dependencies>{}</dependencies></project>"""
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


@dataclass(frozen=True, slots=True)
class Artifact:
    """`alone`: without what it depends on."""

    group: str
    name: str
    version: str
    alone: bool = False

    def declaration(self) -> str:
        return (
            f"<dependency><groupId>{self.group}</groupId><artifactId>{self.name}</artifactId>"
            f"<version>{self.version}</version>{_ALONE if self.alone else ''}</dependency>"
        )


def hadoop_version() -> str:
    """The version of the Hadoop client that comes with pyspark."""
    (jar,) = JARS.glob("hadoop-client-api-*.jar")
    return jar.stem.removeprefix("hadoop-client-api-")


def resolved(artifacts: Sequence[Artifact], place: Path) -> list[Path]:
    """The JARs of the artifacts; skips the test if Maven cannot get them soon. Works in `place`."""
    names = ", ".join(f"{artifact.group}:{artifact.name}:{artifact.version}" for artifact in artifacts)
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip(f"there is no mvn on the PATH that could get {names}")
    (place / "pom.xml").write_text(_PROJECT.format("".join(each.declaration() for each in artifacts)))
    listing = place / "classpath"
    command = [maven, "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={listing}"]
    try:
        done = subprocess.run(
            command, cwd=place, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"Maven did not get {names} within {PATIENCE_SECONDS} seconds")
    if done.returncode != 0 or not listing.exists():
        why = next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stderr.strip())
        pytest.skip(f"Maven cannot get {names}: {why[:300]}")
    return [Path(jar) for jar in listing.read_text().strip().split(":")]
