"""How soon a command answers: what it loads, and what that costs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import headgate as hg

HEAVY = ("pyspark", "py4j", "pyarrow", "pyiceberg", "numpy", "pandas", "obstore", "fastavro")
MEASURE = "import pyiceberg.table"
"""What a command is compared with, in the same run: seconds would say how busy the machine is."""
_PROGRAM = """\
import resource, sys
from headgate.cli.app import app
import headgate.cli
try:
    app(sys.argv[1:])
except SystemExit as ended:
    assert ended.code in (0, None), ended.code
used = resource.getrusage(resource.RUSAGE_SELF)
sys.stderr.write(f"{used.ru_utime + used.ru_stime} {' '.join(sys.modules)}")
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("startup") / "lake"
    lake = hg.Lake.init(directory)
    for number in range(12):
        lake.set_properties({"n": str(number)})
    return directory


def seconds_of(program: str) -> float:
    """The CPU seconds of a Python process that runs a program."""
    script = f"{program}\nimport resource, sys\nused = resource.getrusage(resource.RUSAGE_SELF)\n"
    script += "print(used.ru_utime + used.ru_stime)"
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    return float(result.stdout)


def started(*args: str | Path) -> tuple[float, set[str]]:
    """The seconds that a command took, and the modules that it loaded."""
    # Where bytecode is not kept, each start would compile everything: that is not what users see.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", _PROGRAM, *map(str, args)]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert result.returncode == 0, result.stderr
    seconds, *modules = result.stderr.split()
    return float(seconds), set(modules)


COMMANDS = [
    "--help",
    "log --help",
    "log LAKE",
    "log LAKE --json",
    "show LAKE",
    "timeline LAKE",
    "tables LAKE",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_loads_only_what_it_needs(place: Path, command: str) -> None:
    _, loaded = started(*(place if word == "LAKE" else word for word in command.split()))
    assert loaded.isdisjoint(HEAVY), loaded & {*HEAVY}


def test_help_does_not_load_what_lakes_are_made_of(place: Path) -> None:
    assert "headgate.lake.lake" not in started("--help")[1]
    assert "headgate.lake.lake" in started("log", place)[1]


@pytest.mark.parametrize("command", ["--help", "log LAKE"])
def test_a_command_answers_at_once(place: Path, command: str) -> None:
    words = [place if word == "LAKE" else word for word in command.split()]
    # The best of four: other tests run beside it. What loads Spark or reads every module takes more.
    bar = min(seconds_of(MEASURE) for _ in range(4))
    assert min(started(*words)[0] for _ in range(4)) < 2 * bar


def test_in_a_pipe_not_even_rich_is_loaded(place: Path) -> None:
    assert "rich" not in started("log", place)[1]


def test_importing_the_package_loads_nothing_heavy() -> None:
    script = "import sys, headgate; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    names = {module.partition(".")[0] for module in loaded.stdout.split()}
    assert names.isdisjoint(HEAVY)
    assert "headgate.lake.lake" not in loaded.stdout.split()


def test_every_public_name_is_there() -> None:
    assert all(getattr(hg, name) is not None for name in hg.__all__)
    assert {*hg.__all__} <= {*dir(hg)}
    with pytest.raises(AttributeError, match="no attribute 'Lakes'"):
        _ = hg.Lakes
