"""The files that rows come from: which they are, of which format, and how much of them was read."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from headgate.errors import InvalidInputError
from headgate.model.file_format import Format

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
"""Is told how many bytes of a file were read since the last time."""


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
        """The file as Arrow reads it, decompressed if its ending says so. Closed after the block."""
        kind = self.path.suffix.lower()
        with _raw(self.path) as raw:
            stream = pa.CompressedInputStream(raw, COMPRESSED[kind]) if kind in COMPRESSED else raw
            yield Opened(stream, raw if self.path.is_file() else None, on_bytes)


@dataclass(slots=True)
class Opened:
    """A file that is being read. `raw` knows the position, unless it is a pipe."""

    stream: Any
    raw: Any
    on_bytes: OnBytes
    told: int = 0

    def tell(self) -> None:
        """Says how much was read since the last time."""
        if self.raw is not None:
            reached = self.raw.tell()
            self.on_bytes(reached - self.told)
            self.told = reached


def _raw(path: Path) -> Any:
    # Arrow's own file where there can be one: a Python file can be let go by a thread of Arrow's while the
    # process ends, which aborts it. Pipes have no position, and Arrow wants one.
    return pa.OSFile(str(path)) if path.is_file() else pa.PythonFile(path.open("rb"), mode="r")


def find_sources(patterns: Sequence[str], wanted: Format | None) -> tuple[SourceFile, ...]:
    """The files that the patterns name, in their order, those of a glob sorted; each once.

    The format is the one that is wanted, or else that of the ending. `InvalidInputError` names what is
    missing, or has no format.
    """
    paths: dict[Path, Path] = {}
    for pattern in patterns:
        for path in _matching(pattern):
            paths.setdefault(path.resolve(), path)  # two spellings of a path are one file
    if not paths:
        raise InvalidInputError("no files are given", "name some, or a pattern such as 'orders/*.csv'")
    return tuple(SourceFile(path, wanted or _format_of(path), path.stat().st_size) for path in paths.values())


def _matching(pattern: str) -> list[Path]:
    path = Path(pattern)
    if path.is_dir():
        raise InvalidInputError(f"{pattern} is a directory", f"name its files: '{path / '*'}'")
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
            f"{path}: its ending does not tell the format", "give --format csv, json, parquet or text"
        )
    return known


def has_format(path: Path, wanted: Format) -> bool:
    """Whether a file is one of this format by its ending; every file may be text."""
    return wanted is Format.TEXT or ENDINGS.get(_ending(path)) is wanted


def _ending(path: Path) -> str:
    """The ending of the name, without that of a compression."""
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    return plain.suffix.lower()
