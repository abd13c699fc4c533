"""Quotes of CSV files that are not closed, against a plain automaton, whatever chunks the file comes in."""

from __future__ import annotations

import io
import os
import threading
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headgate as hg
from headgate.errors import InvalidInputError
from headgate.files.csv_file import Dialect
from headgate.files.csv_quotes import QuoteScan, scan_file
from headgate.lake.ingest.load import IngestOptions, ingest
from tests.cli.program import run

LONG = 3
"""How many lines a cell may span in the random files."""


@dataclass
class Verdict:
    line: int
    """Where the cell opened."""
    why: str


def plain_verdict(text: str) -> Verdict | None:
    """What is wrong with the quotes of a file, one character after the other."""
    line, opened, before, at = 1, 0, "\n", 0
    while at < len(text):
        here, after = text[at], text[at + 1 : at + 2]
        if here == '"' and opened and after == '"':
            at += 1
        elif here == '"' and opened:
            if line - opened >= LONG:
                return Verdict(opened, "more than 3 lines")
            if line > opened and after not in ("", ",", "\r", "\n"):
                return Verdict(opened, f"closing quote in line {line}")
            opened = 0
        elif here == '"' and before in (",", "\r", "\n"):
            opened = line
        if here == "\n" or (here == "\r" and after != "\n"):
            line += 1
        before = text[at]
        at += 1
    if opened and line - opened >= LONG:
        return Verdict(opened, "more than 3 lines")
    return Verdict(opened, "not closed before the end") if opened else None


def scanned(text: str, cuts: list[int]) -> InvalidInputError | None:
    data, start = text.encode(), 0
    scan = QuoteScan("f.csv", ",", LONG)
    try:
        for cut in [*sorted(cuts), len(data)]:
            scan.feed(data[start:cut])
            start = max(start, cut)
        scan.finish()
    except InvalidInputError as error:
        return error
    return None


@given(
    st.lists(st.sampled_from(['"', '"', ",", "\n", "\r\n", "\r", "a", '""', ',"a"', '\n"b"']), max_size=30),
    st.lists(st.integers(0, 40), max_size=6),
)
def test_quotes_are_followed_as_one_character_after_the_other_would_be(
    parts: list[str], cuts: list[int]
) -> None:
    text = "".join(parts)
    expected, found = plain_verdict(text), scanned(text, cuts)
    assert (found is None) == (expected is None), (expected, found)
    if found is not None and expected is not None:
        assert found.problem.startswith(f"f.csv, line {expected.line}: "), (expected, found)
        assert expected.why in found.problem


@given(st.lists(st.sampled_from(['"', ",", "\n", "a", '""', ',"a', '"\n']), max_size=20))
def test_arrow_opens_and_closes_quotes_where_the_scan_does(parts: list[str]) -> None:
    text = "x,y\n" + "".join(parts)
    try:
        scan_file(io.BytesIO(text.encode()), QuoteScan("f.csv", ",", 10**6))
    except InvalidInputError:
        return
    options = arrow_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda _: "skip")
    rows = arrow_csv.read_csv(io.BytesIO((text + "\nlast,row\n").encode()), parse_options=options)
    assert rows.slice(rows.num_rows - 1).to_pylist() == [{"x": "last", "y": "row"}]


def lines(count: int) -> str:
    return "".join(f"{number},text {number}\n" for number in range(count))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    hg.Lake.init(tmp_path / "lake")
    return tmp_path / "lake"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('id,name\n1,"ann\n' + lines(997), 2),
        ('id,name\r\n1,ann\r\n2,"bob\r\n' + lines(997).replace("\n", "\r\n"), 3),
        ('\ufeff"id","name"\n1,"two\nlines"\n2,"open\n', 4),
        ('id,name\n1,"ann\n2,bob\n3,"carl"\n', 2),  # closed by the quote that opens the next one
        ('id,name\n1,"ann\n' + lines(600) + '1,""\n1,","\n', 2),
        ('"id,name\n1,ann\n', 1),
        ('id,name\n1,"', 2),
    ],
)
def test_an_unclosed_quote_is_rejected_with_the_line_where_it_opened(
    place: Path, tmp_path: Path, content: str, line: int
) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(content.encode())
    done = run("ingest", place, "sales.orders", file)
    assert done.exit_code == 2, done.output
    assert f"a.csv, line {line}: the quoted cell that opens here" in done.stderr.replace("\n", " ")
    assert hg.Lake.open(place).version == 0


def test_cells_with_line_ends_are_loaded(place: Path, tmp_path: Path) -> None:
    text = "\n".join(f'line {number} of "many"' for number in range(400))
    quoted = text.replace('"', '""')
    (tmp_path / "a.csv").write_text(f'id,name\n1,"{quoted}"\n2,5" pipe\n3,"a"b\n4,"x\r\ny"\n')
    assert run("ingest", place, "s.t", tmp_path / "a.csv").exit_code == 0
    names = hg.Lake.open(place).table("s.t").read_arrow()["name"].to_pylist()
    assert names == [text, '5" pipe', "ab", "x\r\ny"]


def test_the_number_of_lines_can_be_raised(place: Path, tmp_path: Path) -> None:
    text = "\n".join(map(str, range(2000)))
    (tmp_path / "a.csv").write_text(f'id,name\n1,"{text}"\n')
    refused = run("ingest", place, "s.t", tmp_path / "a.csv")
    assert refused.exit_code == 2
    assert "line 2" in refused.stderr and "--max-cell-lines" in refused.stderr
    assert run("ingest", place, "s.t", tmp_path / "a.csv", "--max-cell-lines", "2000").exit_code == 0
    options = IngestOptions(dialect=Dialect(max_cell_lines=2000))
    ingest(hg.Lake.open(place), "s.t", [str(tmp_path / "a.csv")], options)
    assert hg.Lake.open(place).table("s.t").read_arrow()["name"].to_pylist() == [text, text]


def test_a_pipe_is_looked_at_while_it_is_read(place: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "rows"
    os.mkfifo(pipe)
    content = 'id,name\n1,"ann\n' + lines(300)
    writer = threading.Thread(target=pipe.write_text, args=[content])
    writer.start()
    done = run("ingest", place, "s.t", pipe, "--format", "csv", "--schema", "id INT, name STRING")
    writer.join()
    assert done.exit_code == 2 and "rows, line 2: the quoted cell" in done.stderr.replace("\n", " ")


def test_mounts_reject_unclosed_quotes_and_have_the_option_too(place: Path, tmp_path: Path) -> None:
    lake, directory = hg.Lake.open(place), tmp_path / "in"
    directory.mkdir()
    text = "\n".join(map(str, range(600)))
    (directory / "a.csv").write_text(f'id,name\n1,"{text}"\n')
    with pytest.raises(InvalidInputError, match=r"a\.csv, line 2: the quoted cell"):
        lake.mount_csv("raw.a", directory)
    lake.mount_csv("raw.a", directory, schema="id INT, name STRING")
    with pytest.raises(InvalidInputError, match=r"a\.csv, line 2: the quoted cell"):
        lake.table("raw.a").read_arrow()
    lake.mount_csv("raw.b", directory, options={"max_cell_lines": "600"})
    again = hg.Lake.open(place, allow_mounts=[directory])
    assert again.table("raw.b").read_arrow()["name"].to_pylist() == [text]
    for wrong in ("0", "x", "-1", "1.5", "9" * 5000):
        with pytest.raises(InvalidInputError, match="max_cell_lines"):
            lake.mount_csv("raw.c", directory, options={"max_cell_lines": wrong})


def test_a_large_file_of_quoted_cells_is_followed_in_chunks(tmp_path: Path) -> None:
    row = b'"a","b ""c"" d","two\nlines",5\n'
    data = b"w,x,y,z\n" + row * 400_000  # more than one chunk
    scan_file(pa.BufferReader(data), QuoteScan("f.csv", ","))
    with pytest.raises(
        InvalidInputError, match="line 800,002: the quoted cell that opens here is not closed"
    ):
        scan_file(pa.BufferReader(data + b'"a'), QuoteScan("f.csv", ","))
