"""The files that rows come from: their paths, formats and sizes, and how much of them was read."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from headgate.errors import InvalidInputError
from headgate.model.named_object import Format

ENDINGS = {
    ".csv": Format.CSV,
    ".tsv": Format.CSV,
    ".json": Format.JSON,
    ".jsonl": Format.JSON,
    ".ndjson": Format.JSON,
    ".parquet": Format.PARQUET,
}
COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
OnBytes: TypeAlias = Callable[[int], None]
"""Gets the number of bytes that were read from a file since the last call."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    path: Path
    format: Format
    size_bytes: int

    def __str__(self) -> str:
        return str(self.path)

    @property
    def is_tsv(self) -> bool:
        return _ending(self.path) == ".tsv"

    @contextmanager
    def opened(self, on_bytes: OnBytes) -> Iterator[Opened]:
        """Opens the file for Arrow, decompressed according to its extension. Closes it after the block."""
        kind = self.path.suffix.lower()
        with _raw(self.path) as raw:
            stream = pa.CompressedInputStream(raw, COMPRESSED[kind]) if kind in COMPRESSED else raw
            yield Opened(stream, raw if self.path.is_file() else None, on_bytes)


@dataclass(slots=True)
class Opened:
    """A file that is being read. `raw` knows the position, except for a pipe."""

    stream: Any
    raw: Any
    on_bytes: OnBytes
    told: int = 0

    def tell(self) -> None:
        """Reports how much was read since the last call."""
        if self.raw is not None:
            reached = self.raw.tell()
            self.on_bytes(reached - self.told)
            self.told = reached


def _raw(path: Path) -> Any:
    # Use Arrow's own file where possible: one of Arrow's threads may release a Python file while the process
    # exits, which aborts the process. Pipes have no position, which Arrow's own file requires.
    return pa.OSFile(str(path)) if path.is_file() else pa.PythonFile(path.open("rb"), mode="r")


def find_sources(patterns: Sequence[str], wanted: Format | None) -> tuple[SourceFile, ...]:
    """The files that match the patterns, each once, in the order of the patterns; those of a glob are sorted.

    The format is `wanted`, or else inferred from the file extension. `InvalidInputError` names a file that is
    missing, or whose format is unknown.
    """
    paths: dict[Path, Path] = {}
    for pattern in patterns:
        for path in _matching(pattern):
            paths.setdefault(path.resolve(), path)  # two spellings of a path are the same file
    if not paths:
        raise InvalidInputError("no files were given", "name some, or pass a pattern such as 'orders/*.csv'")
    return tuple(SourceFile(path, wanted or _format_of(path), path.stat().st_size) for path in paths.values())


def _matching(pattern: str) -> list[Path]:
    path = Path(pattern)
    if path.is_dir():
        raise InvalidInputError(f"{pattern} is a directory", f"pass its files: '{path / '*'}'")
    if path.exists():
        return [path]
    found = [Path(name) for name in sorted(glob.glob(pattern, recursive=True))]  # noqa: PTH207 — of any root
    files = [each for each in found if each.is_file()]
    if not files:
        what = "no file matches" if glob.has_magic(pattern) else "there is no file"
        raise InvalidInputError(f"{what} {pattern}", "check the path; nothing was changed")
    return files


def _format_of(path: Path) -> Format:
    known = ENDINGS.get(_ending(path))
    if known is None:
        raise InvalidInputError(
            f"{path}: cannot infer the format from the file extension",
            "pass --format csv, json, parquet or text",
        )
    return known


def has_format(path: Path, wanted: Format) -> bool:
    """Whether a file has this format according to its extension; any file can be text."""
    return wanted is Format.TEXT or ENDINGS.get(_ending(path)) is wanted


def _ending(path: Path) -> str:
    """The file extension, without that of a compression."""
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    return plain.suffix.lower()
