"""What an audit says of a commit: a line for each table and virtual path."""

from __future__ import annotations

from headgate.core.history.descriptor import audit_lines
from headgate.model.commit_event import CommitEvent


def event(tables: tuple[dict[str, str], ...], paths: dict[str, dict[str, int]]) -> CommitEvent:
    return CommitEvent(
        "lake-3",
        "lake",
        "/lake",
        3,
        "tx",
        "commit",
        descriptor={"user": "ann", "host": "h", "args": ["load"], "client": "x"},
        tables=tables,
        paths=dict(paths),
    )


def test_one_line_for_each_table_and_path() -> None:
    told = event(
        ({"name": "a.b", "action": "change", "uuid": "u"}, {"name": "a.bc", "action": "drop", "uuid": "v"}),
        {
            "/a/b/id=1": {"rows_added": 2, "files_added": 1, "bytes_added": 9},
            "/a/b/id=2": {"rows_removed": 4},
        },
    )
    first, second, third = audit_lines(told)
    assert first == {
        "event": "lake-3",
        "lake_id": "lake",
        "version": 3,
        "txid": "tx",
        "kind": "commit",
        "user": "ann",
        "host": "h",
        "args": ["load"],
        "table": "a.b",
        "action": "change",
        "uuid": "u",
        "path": "/a/b/id=1",
        "files_added": 1,
        "rows_added": 2,
        "bytes_added": 9,
        "files_removed": 0,
        "rows_removed": 0,
        "bytes_removed": 0,
    }
    assert (second["path"], second["rows_added"], second["rows_removed"]) == ("/a/b/id=2", 0, 4)
    # A name that begins like another has its own paths only.
    assert (third["table"], third["path"], third["rows_removed"]) == ("a.bc", "/a/bc", 0)


def test_a_commit_without_tables_is_one_line_too() -> None:
    (line,) = audit_lines(event((), {}))
    assert (line["version"], line["table"], line["path"]) == (3, None, None)
