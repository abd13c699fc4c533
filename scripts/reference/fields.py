"""The fields that the code writes into an object on storage, read from the source of its encoder."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any


def written(encoder: Any) -> dict[str, bool]:
    """The fields that a function writes, in order; True for a field that is always present.

    An encoder starts with a mapping, which it calls `fields` or returns, and adds the optional fields to it.
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(encoder)))
    found: dict[str, bool] = {}
    for node in ast.walk(tree):
        for name, always in _written_by(node):
            found.setdefault(name, always)
    return found


def _written_by(node: ast.AST) -> Iterator[tuple[str, bool]]:
    match node:
        case ast.AnnAssign(target=ast.Name(id="fields"), value=ast.Dict() as first):
            yield from ((key, True) for key in _keys(first))
        case ast.AnnAssign(target=ast.Name(id="counts"), value=ast.Dict() as first):
            # Fields that are zero are left out.
            yield from ((key, False) for key in _keys(first))
        case ast.Return(value=ast.Dict() as first):
            yield from ((key, True) for key in _keys(first))
        case ast.Return(value=ast.Call(args=[ast.Dict() as first])):
            yield from ((key, True) for key in _keys(first))
        case ast.Return(value=ast.IfExp(orelse=ast.Dict() as more)):
            yield from ((key, False) for key in _keys(more))
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id="fields"), slice=ast.Constant(value=key))]):
            yield str(key), False


def _keys(mapping: ast.Dict) -> Iterator[str]:
    for key in mapping.keys:
        if isinstance(key, ast.Constant):
            yield str(key.value)
