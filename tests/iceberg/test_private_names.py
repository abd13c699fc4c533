"""The names of pyiceberg that are private, which Headgate uses all the same.

A later pyiceberg may change them without notice. So pyproject.toml allows only the releases whose names are
checked here. To allow another one, run this test with it, and read what changed in the four.
"""

from __future__ import annotations

import ast
import inspect
import tomllib
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest
from pyiceberg.schema import Schema

ROOT = Path(__file__).parents[2]
ALLOWED = ">=0.12,<0.13"
VISITORS = "pyiceberg.expressions.visitors"
NAMES = {
    (VISITORS, "_InclusiveMetricsEvaluator"): "schema, expr, case_sensitive=True, include_empty_files=False",
    (VISITORS, "_StrictMetricsEvaluator"): "schema, expr, case_sensitive=True, include_empty_files=False",
    (VISITORS, "_ManifestEvalVisitor"): "partition_struct_schema, partition_filter, case_sensitive",
    ("pyiceberg.io.pyarrow", "_pyarrow_to_schema_without_ids"): (
        "schema, downcast_ns_timestamp_to_us=False, format_version=2"
    ),
}
"""With their parameters."""
EVALUATORS = {
    "_InclusiveMetricsEvaluator": "self, file",
    "_StrictMetricsEvaluator": "self, file",
    "_ManifestEvalVisitor": "self, manifest",
}
"""With the parameters of `eval`."""


def parameters_of(function: Callable[..., object]) -> str:
    """The parameters of a function with their defaults, without types."""
    signature = inspect.signature(function)
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
    return ", ".join(map(str, plain))


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def sources() -> Iterator[ast.Module]:
    for path in sorted((ROOT / "src").rglob("*.py")):
        yield ast.parse(path.read_text(), str(path))


def test_no_others_are_imported() -> None:
    imported = {
        (node.module, name.name)
        for tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "pyiceberg"
        for name in node.names
        if is_private(name.name)
    }
    assert imported == {*NAMES}


def test_no_private_attribute_of_a_schema_is_used() -> None:
    private = {name for name in vars(Schema) if name.startswith("_lazy_")} | {*Schema.__private_attributes__}
    assert {"_lazy_id_to_field", "_name_to_id"} <= private
    used = {node.attr for tree in sources() for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not private & used


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_it_exists_with_its_parameters(module: str, name: str) -> None:
    assert parameters_of(getattr(import_module(module), name)) == NAMES[module, name]


@pytest.mark.parametrize("name", EVALUATORS)
def test_an_evaluator_evaluates(name: str) -> None:
    assert parameters_of(getattr(import_module(VISITORS), name).eval) == EVALUATORS[name]


def test_only_releases_that_were_checked_are_allowed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["bench"]]
    of_pyiceberg = [requirement for requirement in wanted if requirement.startswith("pyiceberg")]
    assert of_pyiceberg
    assert all(requirement.endswith(ALLOWED) for requirement in of_pyiceberg)
    assert version("pyiceberg").startswith("0.12.")
