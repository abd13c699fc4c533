"""The Python interface: public names with their signatures and docstrings."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

import headgate as hg
from headgate import hooks
from headgate.iceberg.scan.planning import Plan
from headgate.lake.table import TableFile, TableSnapshot
from headgate.model.control_entry import ControlEntry, HookRun, UndoRun
from headgate.model.metrics import Activity, LakeMetrics, Metrics, Size, TableSize
from headgate.model.replica import ReplicaMark, ReplicaReport
from headgate.model.reports import RecoveryNeed, RecoveryReport, RowCounts
from headgate.model.table import PathChange
from headgate.steward.hooks.runs import HooksRun
from headgate.steward.rebuilding import RebuildReport
from headgate.steward.recovery import OpenHook
from headgate.transaction.merge_builder import Merge
from headgate.transaction.table_writer import TableWriter
from scripts.reference.markdown import block, page

INTRODUCTION = """
This page lists the public Python interface. `import headgate as hg` gives you the names in the first two
sections; the names for hooks are in `headgate.hooks`. The last section lists objects that methods return. A
name that is not on this page can change at any time. See [Errors](errors.md) for the exceptions.
"""
FIRST = ("Lake", "Table", "Transaction", "LakeView", "RetryPolicy", "session", "fsck")
RETURNED = (
    TableWriter,
    Merge,
    Plan,
    TableFile,
    TableSnapshot,
    RowCounts,
    PathChange,
    Metrics,
    LakeMetrics,
    Activity,
    Size,
    TableSize,
    ControlEntry,
    HookRun,
    UndoRun,
    OpenHook,
    HooksRun,
    RecoveryReport,
    RecoveryNeed,
    RebuildReport,
    ReplicaMark,
    ReplicaReport,
)
WIDTH = 100


def api_page() -> str:
    errors = {name for name in hg.__all__ if _is_error(getattr(hg, name))}
    others = sorted({*hg.__all__} - {*FIRST} - errors - {"__version__", "hooks", "Hook"})
    return page(
        "Python interface",
        INTRODUCTION,
        "## Lakes and tables",
        *(_section(name, getattr(hg, name)) for name in FIRST),
        "## Values",
        *(_section(name, getattr(hg, name)) for name in others),
        "## Hooks",
        *(_section(name, getattr(hooks, name)) for name in hooks.__all__),
        "## What methods return",
        *(_section(kind.__name__, kind) for kind in RETURNED),
    )


def _is_error(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, Exception)


def _section(name: str, thing: Any) -> str:
    parts = [f"### {name}"]
    if not isinstance(thing, type):
        return "\n\n".join([*parts, block(_signature(thing, thing.__name__)), _doc(thing)])
    # The default docstring of a dataclass only repeats its fields.
    made = dataclasses.is_dataclass(thing) and (thing.__doc__ or "").startswith(f"{thing.__name__}(")
    if not made:
        parts.append(_doc(thing))
    if issubclass(thing, enum.Enum):
        parts.append(" ".join(f"`{member.name}`" for member in thing))
    elif dataclasses.is_dataclass(thing):
        shown = [f"{field.name}: {_plain(field.type)}{_default(field)}" for field in _fields(thing)]
        parts.append(block("\n".join(shown)))
    for method, definition in _methods(thing):
        parts += [f"#### {name}.{method}", block(_declared(definition, name, method)), _doc(definition)]
    return "\n\n".join(part for part in parts if part)


def _fields(kind: Any) -> list[dataclasses.Field[Any]]:
    return [field for field in dataclasses.fields(kind) if not field.name.startswith("_")]


def _plain(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return f" = {field.default!r}"
    return " = …" if field.default_factory is not dataclasses.MISSING else ""


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties with a docstring, also inherited ones, in the order of the code."""
    seen: set[str] = set()
    for owner in kind.__mro__:
        if not owner.__module__.startswith("headgate"):
            continue
        for name, raw in vars(owner).items():
            definition = raw.__func__ if isinstance(raw, classmethod | staticmethod) else raw
            known = name in seen or name.startswith("_")
            seen.add(name)
            callable_or_property = inspect.isfunction(definition) or isinstance(definition, property)
            if not known and callable_or_property and inspect.getdoc(definition):
                yield name, definition


def _declared(definition: Any, owner: str, name: str) -> str:
    if isinstance(definition, property):
        assert definition.fget is not None
        return f"{owner}.{name}: {_returned(definition.fget)}"
    return _signature(definition, f"{owner}.{name}")


def _parsed(function: Any) -> ast.FunctionDef:
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    found = tree.body[0]
    assert isinstance(found, ast.FunctionDef), function
    return found


def _returned(function: Any) -> str:
    returns = _parsed(function).returns
    return "" if returns is None else ast.unparse(returns)


def _signature(function: Any, name: str) -> str:
    """The signature as in the source: defaults by their names, not by their current values."""
    if not inspect.isfunction(function):
        return name
    parsed = _parsed(function)
    arguments = parsed.args
    if arguments.args and arguments.args[0].arg in ("self", "cls"):
        arguments.args = arguments.args[1:]
    shown = [part for part in ast.unparse(arguments).split(", ") if part]
    ending = f") -> {_returned(function)}"
    line = f"{name}({', '.join(shown)}{ending}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {one}," for one in _arguments(arguments)), ending])


def _arguments(arguments: ast.arguments) -> Iterator[str]:
    """Each argument on its own; does not split inside brackets."""
    depth, start, text = 0, 0, ast.unparse(arguments)
    for position, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            yield text[start:position].strip()
            start = position + 1
    yield text[start:].strip()


def _doc(thing: Any) -> str:
    return inspect.getdoc(thing) or ""
