"""JARs that Maven resolves, into its own cache: for tests and benchmarks that need more than pip brings."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headgate.errors import UnsupportedError

PATIENCE_SECONDS = 120.0

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

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"

    def declaration(self) -> str:
        return (
            f"<dependency><groupId>{self.group}</groupId><artifactId>{self.name}</artifactId>"
            f"<version>{self.version}</version>{_ALONE if self.alone else ''}</dependency>"
        )


def resolved(
    artifacts: Sequence[Artifact], place: Path, patience_seconds: float = PATIENCE_SECONDS
) -> list[Path]:
    """The JARs of the artifacts; `UnsupportedError` if Maven cannot get them in time. Works in `place`."""
    names = ", ".join(map(str, artifacts))
    maven = shutil.which("mvn")
    if maven is None:
        raise UnsupportedError(f"there is no mvn on the PATH that could get {names}", "install Maven")
    place.mkdir(parents=True, exist_ok=True)
    (place / "pom.xml").write_text(_PROJECT.format("".join(each.declaration() for each in artifacts)))
    listing = place / "classpath"
    command = [maven, "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={listing}"]
    try:
        done = subprocess.run(
            command, cwd=place, capture_output=True, text=True, timeout=patience_seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise UnsupportedError(f"Maven did not get {names} within {patience_seconds:g} seconds") from error
    if done.returncode != 0 or not listing.exists():
        why = next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stderr.strip())
        raise UnsupportedError(f"Maven cannot get {names}: {why[:300]}")
    return [Path(jar) for jar in listing.read_text().strip().split(":")]
