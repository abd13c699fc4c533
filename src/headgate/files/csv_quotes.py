"""Quotes in CSV files: a quote that is never closed would silently turn the rest of a file into one cell."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headgate.errors import InvalidInputError

MAX_CELL_LINES = 500
"""How many lines a quoted cell may span by default."""
CHUNK_BYTES = 8 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_QUOTE = 0x22
_LINE_ENDS = b"\r\n"
_CONTENT = re.compile(rb'(?:[^"]++|"")*+')
"""The text between the quotes of a cell."""


@dataclass(slots=True)
class QuoteScan:
    """Tracks the quotes of one file, chunk by chunk, as Arrow's parser does.

    A quote opens a cell only at the start of a cell; elsewhere it is an ordinary character.
    `InvalidInputError` names the line where the cell opened if the cell is not closed, if it spans more than
    `max_lines` lines, or if it spans lines and has text after its closing quote: then the closing quote most
    likely opens another cell.
    """

    file: str
    delimiter: str
    max_lines: int = MAX_CELL_LINES
    _started: bool = field(default=False, init=False)
    _rest: bytes = field(default=b"", init=False)
    _line: int = field(default=1, init=False)
    """The line of the first byte that was not scanned yet."""
    _before: int = field(default=_LINE_ENDS[-1], init=False)
    """The last byte that was scanned."""
    _opened: int | None = field(default=None, init=False)
    """The line where the currently open cell started, or None."""
    _separators: bytes = field(init=False)
    _opening: re.Pattern[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self._separators = self.delimiter.encode() + _LINE_ENDS
        self._opening = re.compile(b"[" + re.escape(self._separators) + b']"')

    def feed(self, chunk: bytes) -> None:
        """Scans the next bytes of the file."""
        data = self._rest + chunk
        if not self._started and len(data) < len(_BOM):
            self._rest = data
            return
        self._rest = self._look(self._without_mark(data), final=False)

    def finish(self) -> None:
        """Ends the scan: every cell must be closed."""
        self._rest = self._look(self._without_mark(self._rest), final=True)
        if self._opened is not None:
            raise self._refusal(self._opened, "is not closed before the end of the file")

    def _without_mark(self, data: bytes) -> bytes:
        first, self._started = not self._started, True
        return data.removeprefix(_BOM) if first else data

    def _look(self, data: bytes, *, final: bool) -> bytes:
        """Scans `data`, and returns the bytes at its end that need the next ones to be scanned."""
        cut = len(data) if final else max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        block = data[:cut] if cut else data
        if not block:
            return data
        held = self._walk(block, final=final)
        seen = block[: len(block) - held]
        self._line += self._lines(seen, 0, len(seen))
        self._before = seen[-1] if seen else self._before
        return data[len(seen) :]

    def _walk(self, block: bytes, *, final: bool) -> int:
        """Follows the quotes of a block, and returns how many bytes at its end remain to be scanned."""
        carried = self._opened is not None
        at = 0 if carried else self._regular(block, 0, final=final)
        line, counted = self._line, 0
        while self._opened is not None or (at := self._next_open(block, at)) >= 0:
            if self._opened is None:
                line += self._lines(block, counted, at)
                self._opened, counted, at = line, at, at + 1
            found = _CONTENT.match(block, at)
            assert found is not None  # it also matches the empty string
            end = found.end()
            line += self._lines(block, counted, end)
            counted = end
            self._require_few_lines(self._opened, line)
            if end == len(block) or (end == len(block) - 1 and not final):
                return len(block) - end
            self._require_nothing_behind(self._opened, line, block[end + 1 : end + 2])
            self._opened, at = None, end + 1
            if carried:
                carried, at = False, self._regular(block, at, final=final)
        return 0

    def _next_open(self, block: bytes, at: int) -> int:
        """The offset where the next cell opens, or -1."""
        if at == 0 and block[:1] == b'"' and self._before in self._separators:
            return 0
        found = self._opening.search(block, max(at - 1, 0))
        return -1 if found is None else found.end() - 1

    def _regular(self, block: bytes, start: int, *, final: bool) -> int:
        """The offset up to which the quotes after `start` need no closer inspection.

        Up to there, each quote opens or closes a small cell, or is half of a doubled quote. Typical files
        pass in whole blocks. The check counts quotes: a doubled quote closes a cell and opens it again, which
        gives the same result.
        """
        octets = np.frombuffer(block, dtype=np.uint8)
        quotes = np.flatnonzero(octets[start:] == _QUOTE) + start
        if not len(quotes):
            return len(block)
        opens, closes = quotes[0::2], quotes[1::2]
        before, after = octets[opens - 1], octets[np.minimum(closes + 1, len(block) - 1)]
        if opens[0] == 0:
            before[0] = self._before
        again = before == _QUOTE
        unknown_end = block[-1] == _QUOTE and not final
        if unknown_end or again[0] or not (self._are_allowed(before) and self._are_allowed(after)):
            return start
        first, last = opens[~again], closes[np.append(~again[1:], True)[: len(closes)]]
        if self._any_is_long(block, first[: len(last)], last):
            return start
        return len(block) if len(first) == len(last) else int(first[-1])

    def _are_allowed(self, octets: npt.NDArray[np.uint8]) -> bool:
        return bool(np.isin(octets, np.frombuffer(self._separators + b'"', dtype=np.uint8)).all())

    def _any_is_long(self, block: bytes, first: npt.NDArray[np.int64], last: npt.NDArray[np.int64]) -> bool:
        # A cell has at most as many lines as bytes, so most cells need no count.
        return any(
            self._lines(block, int(first[each]), int(last[each])) >= self.max_lines
            for each in np.flatnonzero(last - first >= self.max_lines)
        )

    def _lines(self, block: bytes, start: int, end: int) -> int:
        """The number of line ends between two offsets; `\\r\\n` is one."""
        both = block.count(b"\r\n", start, end)
        split = start == 0 and self._before == _LINE_ENDS[0] and block[:1] == b"\n" and end > 0
        return block.count(b"\n", start, end) + block.count(b"\r", start, end) - both - split

    def _require_few_lines(self, opened: int, line: int) -> None:
        if line - opened >= self.max_lines:
            raise self._refusal(opened, f"spans more than {self.max_lines:,} lines")

    def _require_nothing_behind(self, opened: int, line: int, after: bytes) -> None:
        if line > opened and after and after not in self._separators:
            raise self._refusal(opened, f"spans lines and has text after its closing quote in line {line:,}")

    def _refusal(self, line: int, problem: str) -> InvalidInputError:
        return InvalidInputError(
            f"{self.file}, line {line:,}: the quoted cell that opens here {problem}",
            "close the quote, and double each quote inside a cell; "
            f"for cells of more than {self.max_lines:,} lines, raise max_cell_lines (--max-cell-lines)",
        )


def scan_file(stream: Any, scan: QuoteScan, at_most: int | None = None) -> None:
    """Scans a stream, or only its first `at_most` bytes."""
    left = at_most
    while left is None or left > 0:
        chunk = stream.read(CHUNK_BYTES if left is None else min(left, CHUNK_BYTES))
        if not chunk:
            scan.finish()
            return
        scan.feed(chunk)
        left = None if left is None else left - len(chunk)


def scanned_stream(stream: Any, scan: QuoteScan) -> Any:
    """A stream that is scanned while it is read: for pipes, which cannot be read twice."""
    return pa.PythonFile(_Scanned(stream, scan), mode="r")


@dataclass(slots=True)
class _Scanned:
    """The methods that Arrow calls on a Python file that it reads sequentially."""

    stream: Any
    scan: QuoteScan
    closed: bool = False
    _ended: bool = False

    def read(self, size: int) -> bytes:
        chunk: bytes = self.stream.read(size)
        if chunk:
            self.scan.feed(chunk)
        elif not self._ended:
            self._ended = True
            self.scan.finish()
        return chunk

    def close(self) -> None:
        self.closed = True
