"""The house: each package has a layer, the root stays small, and ARCHITECTURE.md names files that exist."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from scripts.packages import PACKAGE, PICTURE, contracts, layers, picture

from tests.documents.page import REPOSITORY

MOST_FILES_IN_THE_ROOT = 6
MOST_LAYERS = 14
MOST_FILES_ON_THE_WAY = {"append": 45, "compaction": 70}
BESIDE_ALL = {"testing"}
READ_BY_THE_SESSION = {"expr", "selectExpr"}
"""Methods of Spark that read SQL with the parser of the session, which replaces `${…}` in it first."""
QUERIES_OF_USERS = "spark/sql/run.py"
"""Here users write the whole query themselves, for `lake.sql`."""
OF_NOBODY_ELSE = "cli/demo/"
"""The SQL of the demonstration is constant, and it shows what users would write."""


def test_every_package_and_module_of_the_root_is_in_one_layer() -> None:
    there = {path.name.removesuffix(".py") for path in PACKAGE.iterdir() if _is_code(path.name)}
    listed = [name for layer in layers() for name in layer]
    assert sorted(listed) == sorted(there - BESIDE_ALL - {"__init__"})
    assert len(layers()) <= MOST_LAYERS


@pytest.mark.parametrize(
    ("forbidden", "allowed"), [("pyspark", {"spark", *BESIDE_ALL}), ("headgate.testing", BESIDE_ALL)]
)
def test_no_package_is_forgotten_where_one_may_import_what_others_may_not(
    forbidden: str, allowed: set[str]
) -> None:
    bound = {
        name.removeprefix("headgate.")
        for contract in contracts()
        if forbidden in contract.get("forbidden_modules", ())
        for name in contract["source_modules"]
    }
    assert bound == {name for layer in layers() for name in layer} - allowed


def test_the_root_of_the_package_is_small() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= MOST_FILES_IN_THE_ROOT


def test_the_picture_of_the_packages_is_not_stale() -> None:
    assert PICTURE.read_text() == picture(), "run python -m scripts.packages"


def test_the_files_that_the_architecture_names_are_there() -> None:
    page = (REPOSITORY / "ARCHITECTURE.md").read_text()
    named = {
        name for name in re.findall(r"`([\w./]+)`", page) if name.endswith((".py", "/")) or "tests/" in name
    }
    assert len(named) > 50
    roots = (REPOSITORY, PACKAGE, PACKAGE / "storage")
    assert sorted(name for name in named if not any((root / name).exists() for root in roots)) == []


def test_operations_pass_through_few_files() -> None:
    # On a slow machine an operation may do more, such as a heartbeat: the shortest of three ways counts.
    ways = [_files_on_the_way() for _ in range(3)]
    for name, most in MOST_FILES_ON_THE_WAY.items():
        assert min(way[name] for way in ways) <= most, ways


def _files_on_the_way() -> dict[str, int]:
    # In a process of its own: what other tests have cached would shorten the way.
    command = [sys.executable, "-m", "scripts.trace"]
    printed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    return {line.split()[0]: int(line.split()[2]) for line in printed.splitlines()[1:]}


def test_no_sql_is_given_to_the_parser_of_the_session() -> None:
    """It would put settings and environment variables into it: use `as_column` of `spark/sql/columns.py`.

    Whether `where` gets a string is only known when it is called: see the fixture in `tests/spark`.
    """
    found = [
        f"{path.relative_to(PACKAGE)}:{line} {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not str(path.relative_to(PACKAGE)).startswith(OF_NOBODY_ELSE)
        for line, name in _sql_for_the_session(ast.parse(path.read_text()))
    ]
    assert [one for one in found if not one.startswith(f"{QUERIES_OF_USERS}:")] == []
    assert [one.split()[1] for one in found] == ["sql"]


def _sql_for_the_session(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.alias(name=name) if name in READ_BY_THE_SESSION:
                yield node.lineno, name
            case ast.Call(func=ast.Attribute(ast.Name("spark"), "sql")):
                yield node.lineno, "sql"
            case ast.Call(func=ast.Attribute(attr="where" | "filter" as name), args=[text]) if _is_text(text):
                yield node.lineno, name


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_code(name: str) -> bool:
    return name.endswith(".py") or (PACKAGE / name / "__init__.py").exists()
