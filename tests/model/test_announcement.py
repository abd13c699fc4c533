"""Announcements: what is written is read again, what cannot be judged is not respected."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headgate.errors import CorruptLakeError, UnsupportedError
from headgate.model.announcement import MAX_NAMED, MISSED_HEARTBEATS, Announcement, Intent
from headgate.model.identifiers import TxId, Version

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
TXID = TxId("a" * 32)
ANNOUNCED = Announcement(
    TXID,
    Version(7),
    NOON,
    NOON + timedelta(seconds=5),
    timedelta(seconds=10),
    "ann",
    "host-1",
    (
        Intent("overwrite", "a.b", "u", frozenset({"/a/b/p=1"}), frozenset({"0f"})),
        Intent("delete", "a.c", "v", by_position=True),
    ),
    TxId("b" * 32),
)


def test_what_is_written_is_read_again() -> None:
    assert Announcement.decode(ANNOUNCED.encode(), TXID, "here") == ANNOUNCED


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (b'"base":7', b'"base":-1'),
        (b'"txid":"aa', b'"txid":"ab'),
        (b'"interval_ms":10000', b'"interval_ms":1000000000000000000'),
        (b'"plan":"bb', b'"plan":"xx'),
        (b"{", b""),
    ],
)
def test_a_damaged_one_is_named(was: bytes, becomes: bytes) -> None:
    assert was in ANNOUNCED.encode()
    with pytest.raises(CorruptLakeError, match="here"):
        Announcement.decode(ANNOUNCED.encode().replace(was, becomes, 1), TXID, "here")


def test_one_of_a_later_release_is_told_apart() -> None:
    with pytest.raises(UnsupportedError):
        Announcement.decode(ANNOUNCED.encode().replace(b'"format":1', b'"format":2'), TXID, "here")


def test_it_is_alive_until_it_missed_its_heartbeats_and_not_if_they_come_from_the_future() -> None:
    patience = MISSED_HEARTBEATS * ANNOUNCED.interval
    heard = ANNOUNCED.heartbeat_at
    assert ANNOUNCED.is_alive(heard + patience)
    assert not ANNOUNCED.is_alive(heard + patience + timedelta(seconds=1))
    assert ANNOUNCED.is_alive(heard - patience)
    assert not ANNOUNCED.is_alive(heard - patience - timedelta(seconds=1))
    assert ANNOUNCED.at(heard + patience).is_alive(heard + 2 * patience)


def test_what_is_too_much_to_name_is_not_named() -> None:
    many = [str(number) for number in range(MAX_NAMED + 1)]
    assert Intent.of("overwrite", "a.b", "u", many, many) == Intent("overwrite", "a.b", "u")
    assert Intent.of("overwrite", "a.b", "u", many[1:], many[1:]).files == frozenset(many[1:])
