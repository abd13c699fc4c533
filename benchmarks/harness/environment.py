"""Where systems run: in this environment, or in one of their own with the Spark and the JARs that they need.

Environments are created once, under `.bench/` in the repository, from PyPI and Maven. If one of these cannot
be reached, the systems that need it are left out, and the page says why.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.process import ROOT
from tests.servers.maven import Artifact, resolved

from headgate.errors import UnsupportedError

CACHE = Path(os.environ.get("HEADGATE_BENCH_CACHE", ROOT / ".bench"))
PATIENCE_SECONDS = 900.0
_FAILED: dict[str, UnsupportedError] = {}


@dataclass(frozen=True, slots=True)
class Environment:
    """`packages` and `artifacts` with exact versions; without both, it is this environment."""

    name: str
    packages: Sequence[str] = ()
    artifacts: Sequence[Artifact] = ()

    @property
    def place(self) -> Path:
        return CACHE / "environments" / self.name

    @property
    def _wanted(self) -> str:
        return json.dumps([list(self.packages), [str(each) for each in self.artifacts]])

    @property
    def _done(self) -> Path:
        return self.place / "done.json"

    def ready(self) -> Ready | None:
        """The environment, if it already exists."""
        if not self.packages:
            return Ready(sys.executable)
        if not self._done.exists():
            return None
        known = json.loads(self._done.read_text())
        if known["wanted"] != self._wanted or not all(Path(jar).exists() for jar in known["jars"]):
            return None
        return Ready(str(self.place / "venv" / "bin" / "python"), tuple(known["jars"]))

    def made(self) -> Ready:
        """The environment, created if necessary. The `UnsupportedError` says what could not be installed.

        A failure is not retried in this process, because it can take minutes each time.
        """
        known = self.ready()
        if known is not None:
            return known
        if self._wanted in _FAILED:
            raise _FAILED[self._wanted]
        try:
            return self._make()
        except UnsupportedError as error:
            _FAILED[self._wanted] = error
            raise

    def _make(self) -> Ready:
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True)
        # The JARs first: without them the rest, which is larger, is useless.
        jars = [str(jar) for jar in resolved(self.artifacts, self.place / "maven", PATIENCE_SECONDS)]
        python = self.place / "venv" / "bin" / "python"
        _run([sys.executable, "-m", "venv", str(self.place / "venv")])
        _run([str(python), "-m", "pip", "install", "--quiet", *self.packages])
        self._done.write_text(json.dumps({"wanted": self._wanted, "jars": jars}))
        return Ready(str(python), tuple(jars))


@dataclass(frozen=True, slots=True)
class Ready:
    """An environment that exists."""

    python: str
    jars: tuple[str, ...] = ()


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise UnsupportedError(f"{' '.join(command[:4])} took more than {PATIENCE_SECONDS:g} s") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise UnsupportedError(f"{' '.join(command[2:])}: {said[-1][:300] if said else 'failed'}")


MAIN = Environment("main")
DELTA = Environment(
    "delta",
    ("pyspark==4.2.1",),
    (Artifact("io.delta", "delta-spark_4.2_2.13", "4.4.0"),),
)
ICEBERG = Environment(
    "iceberg",
    ("pyspark==4.1.4",),
    (Artifact("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.12.0", alone=True),),
)
ENVIRONMENTS = {each.name: each for each in (MAIN, DELTA, ICEBERG)}


def main() -> int:
    """Creates all environments. If one fails, it is reported and the rest can still be measured."""
    for environment in ENVIRONMENTS.values():
        if environment.ready() is None:
            print(f"bench: making the environment {environment.name} (minutes, the first time)", flush=True)
        try:
            environment.made()
        except UnsupportedError as error:
            print(f"bench: no environment {environment.name}: {error.problem}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
