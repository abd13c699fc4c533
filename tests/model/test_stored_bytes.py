"""Objects as they are on storage today: these bytes are read, and written again without a change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import pytest

from headgate.errors import CorruptLakeError, UnsupportedError
from headgate.model.announcement import Announcement, Intent
from headgate.model.attempts import Bid, Bids
from headgate.model.control_entry import ControlEntry, FailedCommits, HookRun, HookState, UndoRun
from headgate.model.footprint import Upserted
from headgate.model.identifiers import TxId, Version
from headgate.model.replica import ReplicaMark

ONE, TWO = TxId("a" * 32), TxId("b" * 32)
NOON = datetime(2026, 11, 15, 12, 0, 0, 250, tzinfo=UTC)

ENTRY = (
    '{"copy":"{\\"version\\":12}","descriptor":{"deep":{"a":"ü","b":[1.5,null,true]},"kind":"append",'
    '"user":"ann","z":1},"failures":{"conflict":1,"storage-refused":2},"format":1,"hooks":[{"attempts":2,'
    '"later":[1],"name":"notify","seconds":0.123457,"state":"done","undo":{"attempts":3,"error":"no",'
    '"state":"failed"}},{"attempts":1,"error":"boom \\"x\\"","name":"copy","seconds":0.0,"state":"failed"},'
    '{"attempts":0,"name":"new","seconds":0.0,"state":"pending"},{"attempts":0,"name":"gone","seconds":0.0,'
    '"state":"skipped","undo":{"attempts":0,"state":"pending"}}],"later":{"a":2,"b":1},"record":"sha256:00",'
    '"recovered":true,"timings":{"commit":12345678901.5,"prepare":1.234568,"tiny":1e-05},'
    '"txid":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","unknown_outcomes":3,"version":12}'
).encode()
SMALL_ENTRY = (
    b'{"descriptor":{},"format":1,"hooks":[],"record":"sha256:00","recovered":false,"timings":{},'
    b'"txid":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","version":1}'
)
ANNOUNCEMENT = (
    '{"base":7,"format":1,"heartbeat_at":"2026-11-15T12:00:05.000250Z","host":"höst","intents":['
    '{"by_position":false,"files":["0f","1f"],"kind":"overwrite","name":"a.b","paths":["/a/b/p=1",'
    '"/a/b/p=2"],"table":"u"},{"by_position":true,"files":null,"kind":"delete","name":"a.c","paths":[],'
    '"table":"v"},{"by_position":false,"files":null,"kind":"merge","name":"a.d","paths":[],"table":"w",'
    '"upserted":{"bounds":{},"partitions":null}}],"interval_ms":10000,'
    '"plan":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","started_at":"2026-11-15T12:00:00.000250Z",'
    '"txid":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","user":"ann"}'
).encode()
SMALL_ANNOUNCEMENT = (
    b'{"base":0,"format":1,"heartbeat_at":"2026-11-15T12:00:00.000250Z","host":"h","intents":[],'
    b'"interval_ms":1,"started_at":"2026-11-15T12:00:00.000250Z",'
    b'"txid":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","user":"ann"}'
)
MARK = (
    '{"format":1,"lake_id":"1234","since":"2026-11-15T12:00:00.000250Z","source":"s3://bucket/läke"}'.encode()
)
BIDS = (
    b'{"bids":[{"client":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","proposed":null,"sub_version":1,'
    b'"transaction":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"},{"client":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",'
    b'"proposed":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","sub_version":2,"transaction":null}],"failed":[1],'
    b'"omitted":4,"version":9}'
)


class Codec(Protocol):
    def __call__(self, data: bytes) -> Any: ...


def entry_of(version: int) -> Codec:
    return lambda data: ControlEntry.decode(data, Version(version), "here")


def announcement(data: bytes) -> Announcement:
    return Announcement.decode(data, ONE, "here")


def mark(data: bytes) -> ReplicaMark:
    return ReplicaMark.decode(data, "here")


def bids(data: bytes) -> Bids:
    return Bids.decode(data, Version(9), "here")


def encoded(value: Any) -> bytes:
    data: bytes = value.encode(Version(9)) if isinstance(value, Bids) else value.encode()
    return data


STORED: dict[str, tuple[bytes, Codec, Any]] = {
    "control entry": (
        ENTRY,
        entry_of(12),
        ControlEntry(
            Version(12),
            ONE,
            "sha256:00",
            {"kind": "append", "user": "ann", "z": 1, "deep": {"a": "ü", "b": [1.5, None, True]}},
            (
                HookRun(
                    "notify",
                    HookState.DONE,
                    2,
                    0.123457,
                    undo=UndoRun(HookState.FAILED, 3, "no"),
                    unknown={"later": [1]},
                ),
                HookRun("copy", HookState.FAILED, 1, error='boom "x"'),
                HookRun("new"),
                HookRun("gone", HookState.SKIPPED, undo=UndoRun()),
            ),
            {"prepare": 1.234568, "commit": 12345678901.5, "tiny": 1e-05},
            recovered=True,
            copy='{"version":12}',
            failed=FailedCommits({"conflict": 1, "storage-refused": 2}, 3),
            unknown={"later": {"a": 2, "b": 1}},
        ),
    ),
    "small control entry": (SMALL_ENTRY, entry_of(1), ControlEntry(Version(1), ONE, "sha256:00", {})),
    "announcement": (
        ANNOUNCEMENT,
        announcement,
        Announcement(
            ONE,
            Version(7),
            NOON,
            NOON + timedelta(seconds=5),
            timedelta(seconds=10),
            "ann",
            "höst",
            (
                Intent("overwrite", "a.b", "u", frozenset({"/a/b/p=1", "/a/b/p=2"}), frozenset({"0f", "1f"})),
                Intent("delete", "a.c", "v", by_position=True),
                Intent("merge", "a.d", "w", upserted=Upserted()),
            ),
            TWO,
        ),
    ),
    "small announcement": (
        SMALL_ANNOUNCEMENT,
        announcement,
        Announcement(ONE, Version(0), NOON, NOON, timedelta(milliseconds=1), "ann", "h"),
    ),
    "mark of a replica": (MARK, mark, ReplicaMark("1234", "s3://bucket/läke", NOON)),
    "bids": (BIDS, bids, Bids((Bid(1, ONE.text, TWO.text), Bid(2, TWO.text, None, ONE.text)), (1,), 4)),
}


@pytest.mark.parametrize(("data", "decode", "value"), STORED.values(), ids=STORED)
def test_bytes_on_storage_are_read_and_written_again_unchanged(
    data: bytes, decode: Codec, value: Any
) -> None:
    assert decode(data) == value
    assert encoded(decode(data)) == data


def test_what_a_later_release_adds_to_an_entry_and_to_its_hooks_is_kept() -> None:
    entry = ControlEntry.decode(ENTRY, Version(12), "here")
    again = replace(entry, hooks=(replace(entry.hooks[0], attempts=9), *entry.hooks[1:]))
    assert again.encode() == ENTRY.replace(b'"attempts":2', b'"attempts":9', 1)


@pytest.mark.parametrize(
    ("data", "decode"),
    [
        (ANNOUNCEMENT, announcement),
        (MARK, mark),
        (BIDS, bids),
        (ENTRY.replace(b'"state":"failed"', b'"state":"failed","later":1', 1), entry_of(12)),
    ],
)
def test_what_a_later_release_adds_elsewhere_does_no_harm(
    data: bytes, decode: Callable[[bytes], Any]
) -> None:
    assert decode(data.replace(b"{", b'{"a-later-one":[{}],', 1)).__class__ is decode(data).__class__


LENIENT = {
    "a time that nobody took": (ENTRY, b'"seconds":0.123457', b'"seconds":"long"', entry_of(12)),
    "a time before the beginning": (ENTRY, b'"prepare":1.234568', b'"prepare":-1', entry_of(12)),
    "a time that is a truth": (ENTRY, b'"seconds":0.123457', b'"seconds":true', entry_of(12)),
    "a truth that is none": (ENTRY, b'"recovered":true', b'"recovered":"yes"', entry_of(12)),
    "no number of failures": (ENTRY, b'"unknown_outcomes":3', b'"unknown_outcomes":null', entry_of(12)),
    "no failures": (SMALL_ENTRY, b'"format":1', b'"failures":null,"format":1', entry_of(1)),
    "no hooks": (SMALL_ENTRY, b'"hooks":[],', b"", entry_of(1)),
    "no intents": (SMALL_ANNOUNCEMENT, b'"intents":[],', b"", announcement),
    "a client that does not name its transaction": (BIDS, b'"bbbbbbbb', b'"xx', bids),
}


@pytest.mark.parametrize(("data", "was", "becomes", "decode"), LENIENT.values(), ids=LENIENT)
def test_what_nothing_depends_on_may_be_wrong(data: bytes, was: bytes, becomes: bytes, decode: Codec) -> None:
    assert was in data
    decode(data.replace(was, becomes, 1))


DAMAGED = {
    "not JSON": (ENTRY, b"{", b"", entry_of(12)),
    "not an object": (MARK, MARK, b"[]", mark),
    "another version": (ENTRY, b'"version":12}', b'"version":11}', entry_of(12)),
    "a version that is a truth": (SMALL_ENTRY, b'"version":1}', b'"version":true}', entry_of(1)),
    "a missing record": (ENTRY, b'"record"', b'"recoord"', entry_of(12)),
    "an unknown state": (ENTRY, b'"state":"done"', b'"state":"odd"', entry_of(12)),
    "too many attempts": (ENTRY, b'"attempts":2', b'"attempts":' + b"9" * 30, entry_of(12)),
    "a fraction of attempts": (ENTRY, b'"attempts":2', b'"attempts":2.5', entry_of(12)),
    "hooks that are none": (SMALL_ENTRY, b'"hooks":[]', b'"hooks":[1]', entry_of(1)),
    "a negative number of failures": (ENTRY, b'"conflict":1', b'"conflict":-1', entry_of(12)),
    "an error that is no text": (ENTRY, b'"error":"no"', b'"error":1', entry_of(12)),
    "half of a surrogate pair": (ENTRY, b'"user":"ann"', b'"user":"\\ud800"', entry_of(12)),
    "lists in each other": (ENTRY, b'"later":[1]', b'"later":' + b"[" * 200 + b"]" * 200, entry_of(12)),
    "another encoding": (MARK, MARK, MARK.decode().encode("utf-16"), mark),
    "a heartbeat that is no time": (SMALL_ANNOUNCEMENT, b'"2026-11-15T12', b'"2026-99-15T12', announcement),
    "a path that is no text": (ANNOUNCEMENT, b'"/a/b/p=1"', b"7", announcement),
    "files that are no list": (ANNOUNCEMENT, b'"files":null', b'"files":{}', announcement),
    "a source that is no text": (MARK, b'"lake_id":"1234"', b'"lake_id":1234', mark),
    "a client that is none": (BIDS, b'"client":"aaaa', b'"client":"xxxx', bids),
    "a failed sub-version that is none": (BIDS, b'"failed":[1]', b'"failed":["1"]', bids),
    "a negative sub-version": (BIDS, b'"sub_version":1', b'"sub_version":-1', bids),
}


@pytest.mark.parametrize(("data", "was", "becomes", "decode"), DAMAGED.values(), ids=DAMAGED)
def test_damage_names_the_object(data: bytes, was: bytes, becomes: bytes, decode: Codec) -> None:
    assert was in data
    with pytest.raises(CorruptLakeError, match="here"):
        decode(data.replace(was, becomes, 1))


@pytest.mark.parametrize(
    ("data", "decode"), [(ENTRY, entry_of(12)), (ANNOUNCEMENT, announcement), (MARK, mark)]
)
def test_a_later_format_is_not_guessed_at(data: bytes, decode: Codec) -> None:
    with pytest.raises(UnsupportedError):
        decode(data.replace(b'"format":1', b'"format":2', 1))
