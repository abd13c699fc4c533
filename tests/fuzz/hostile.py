"""Values that a careless or hostile caller gives, chosen by what a parameter is annotated with."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa

DEEP = 5000
ALSO_HOSTILE = 0.15
"""How often an argument is hostile beside the one that is chosen."""
OF_ANOTHER_TYPE = 0.25
NOT_OF_CALLERS = frozenset({"self", "cls", "host"})
"""`host` is where tests put a clock of their own."""


def _deep(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def _deep_mapping(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"k": value}
    return value


class Unprintable:
    """Something that cannot even be shown."""

    def __repr__(self) -> str:
        raise ValueError("not shown")


TEXTS: tuple[Any, ...] = (
    "",
    " ",
    "\0",
    "a\0b",
    "\ud800",
    "db.\udfff",
    "x" * 100_000,
    "db." + "y" * 5000,
    "../../x",
    "db.t.u",
    ".",
    "db.",
    "\x1b[31m",
    "id",
    "id = ",
    "(" * DEEP,
    "NOT " * DEEP + "id = 1",
    "9" * 5000,
    "2026-99-99",
    "10000-01-01",
    "0001-01-01T00:00:00+23:59",
    "999999999999d",
    "'",
    "`",
    "id\n",
    "🦆.🦆",
)
NUMBERS: tuple[Any, ...] = (-1, 0, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30, -(10**30), 10**5000)
FRACTIONS: tuple[Any, ...] = (float("nan"), float("inf"), -0.5, 1e308)
SPANS: tuple[Any, ...] = (dt.timedelta.max, dt.timedelta.min, dt.timedelta(0), -dt.timedelta(days=1))
TIMES: tuple[Any, ...] = (
    dt.datetime.min,
    dt.datetime.max,
    dt.datetime.max.replace(tzinfo=dt.timezone(-dt.timedelta(hours=23))),
    dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=23))),
    dt.date.min,
    dt.date.max,
)
WRONG: tuple[Any, ...] = (
    None,
    True,
    3,
    1.5,
    b"x",
    b"\xff",
    [],
    {},
    set(),
    object(),
    Unprintable(),
    len,
    int,
    ...,
    _deep(DEEP),
    _deep_mapping(DEEP),
)
LISTS: tuple[Any, ...] = (
    ["id", "id"],
    ["\ud800"],
    [""],
    [None],
    [1],
    "id",
    ["x" * 10_000],
    ["nothing"],
    {"id": 1},
    (name for name in ["id"]),
    _deep(DEEP),
)
MAPPINGS: tuple[Any, ...] = (
    {"": "x"},
    {"x": 1},
    {1: "x"},
    {"\ud800": "x"},
    {"x": "\ud800"},
    {"x": None},
    {"id": "id +"},
    {"id": "'x'"},
    {"nothing": "1"},
    {"write.target-file-size-bytes": "9" * 5000},
    {"compaction.delete_share": "nan"},
    {"format-version": "99"},
    [("a", "b")],
    _deep_mapping(DEEP),
)
ROWS: tuple[Any, ...] = (
    pa.table([[1], [2]], names=["id", "id"]),
    pa.table([[1], ["x"], ["y"]], names=["id", "name", "name"]),
    pa.table({"id": ["x"]}),
    pa.table({}),
    pa.table({"": [1]}),
    pa.table({"id": pa.array([1], pa.uint64()), "more": [1]}),
    pa.table({"id": [None]}),
    pa.table({"id": pa.array([dt.timedelta(1)])}),
    pa.record_batch({"id": [1]}),
    [{"id": 1}],
)
SCHEMAS: tuple[Any, ...] = (
    "id INT, id INT",
    "id",
    "id DECIMAL(99, 5)",
    "id ARRAY<" * 2000,
    pa.schema([("id", pa.int64()), ("id", pa.int64())]),
    pa.schema([("\x00", pa.int64())]),
    pa.schema([("d", pa.duration("s"))]),
    pa.schema([]),
)
BY_ANNOTATION: Mapping[str, tuple[Any, ...]] = {
    "str": TEXTS,
    "PathLike": TEXTS,
    "int": NUMBERS,
    "float": FRACTIONS,
    "timedelta": SPANS,
    "date": TIMES,
    "Sequence": LISTS,
    "Iterable": LISTS,
    "Mapping": MAPPINGS,
    "Rows": ROWS,
    "Any": (*SCHEMAS, *ROWS, *TEXTS[:8]),
}
"""By a word in an annotation."""


@dataclass(frozen=True)
class Call:
    """One call, with arguments that are shown short when it fails."""

    name: str
    positional: tuple[Any, ...]
    named: Mapping[str, Any]

    def of(self, owner: Any) -> Any:
        return getattr(owner, self.name)(*self.positional, **self.named)

    def __str__(self) -> str:
        given = [_shown(value) for value in self.positional]
        given += [f"{name}={_shown(value)}" for name, value in self.named.items()]
        return f"{self.name}({', '.join(given)})"


def _shown(value: Any) -> str:
    try:
        return repr(value)[:60]
    except (ValueError, RecursionError):
        return f"<{type(value).__name__}>"


def public_methods(kind: type) -> dict[str, inspect.Signature]:
    """The methods of a class that callers may call, by name."""
    return {
        name: inspect.signature(member)
        for name, member in inspect.getmembers(kind, callable)
        if not name.startswith("_") and not inspect.isclass(member)
    }


def hostile_call(
    name: str, signature: inspect.Signature, good: Mapping[str, Callable[[], Any]], dice: Random
) -> Call:
    """A call in which at least one argument is hostile, and the others are `good` by their names if known."""
    parameters = [each for each in signature.parameters.values() if each.name not in NOT_OF_CALLERS]
    chosen = dice.choice(parameters).name if parameters else ""
    in_order = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for parameter in parameters:
        is_hostile = parameter.name == chosen or dice.random() < ALSO_HOSTILE
        if not is_hostile and _may_be_left_out(parameter, good):
            continue
        usual = good.get(parameter.name)
        value = hostile(parameter, dice) if is_hostile or usual is None else usual()
        if parameter.kind is parameter.VAR_POSITIONAL or (
            in_order and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ):
            positional.append(value)
        else:
            named["limit" if parameter.kind is parameter.VAR_KEYWORD else parameter.name] = value
    return Call(name, tuple(positional), named)


def _may_be_left_out(parameter: inspect.Parameter, good: Mapping[str, Callable[[], Any]]) -> bool:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return True
    return parameter.default is not inspect.Parameter.empty and parameter.name not in good


def hostile(parameter: inspect.Parameter, dice: Random) -> Any:
    """A value of the annotated type that is at its edge, or one of another type."""
    annotation = str(parameter.annotation)
    if "Callable" in annotation or "OnProgress" in annotation:
        # What a function of the caller raises is the caller's.
        return dice.choice([value for value in WRONG if not callable(value)])
    pools = [pool for word, pool in BY_ANNOTATION.items() if word in annotation]
    if not pools or dice.random() < OF_ANOTHER_TYPE:
        return dice.choice(WRONG)
    return dice.choice(dice.choice(pools))
