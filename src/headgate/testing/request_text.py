"""Requests of a client as a line of text, for traces and transcripts."""

from __future__ import annotations

from typing import Any

from headgate.storage.requests import Create, Delete, Get, ListPage, Put, Rename


def describe(request: Any) -> str:
    """A request in a few words, for schedules."""
    match request:
        case Get(key):
            return f"GET {short(key)}"
        case Put(key, _):
            return f"PUT {short(key)}"
        case Create(key, _):
            return f"CREATE {short(key)}"
        case Rename(source, target):
            return f"RENAME {short(source)} to {short(target)}"
        case Delete(key):
            return f"DELETE {short(key)}"
        case ListPage(prefix, after):
            return f"LIST {short(prefix)}" + (f" after {short(after)}" if after else "")
        case _:
            return str(request)


def short(key: str) -> str:
    """A key without padding and without the part that all keys share."""
    parts = key.removeprefix("control/log/").split("/")
    return "/".join(_without_zeros(part) for part in parts)


def _without_zeros(part: str) -> str:
    stem, dot, ending = part.partition(".")
    prefix, dash, last = stem.rpartition("-")
    plain = (last.lstrip("0") or "0") if last.startswith("0") and last.isalnum() else last
    return f"{prefix}{dash}{plain}{dot}{ending}"
