"""Avro container files as bytes: the header and the blocks, without looking into the records.

fastavro reads and writes records, and decompresses every block on its way. What is here lets a reader pass
over blocks, and carry blocks from one file to another.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
RAW_DEFLATE = -15


@dataclass(frozen=True, slots=True)
class Block:
    """A number of records: `whole` is all that belongs to it in the file, the records begin at `body_at`."""

    count: int
    whole: bytes
    body_at: int

    def records(self) -> bytes:
        """The records one after the other, of a file that is compressed with deflate."""
        return zlib.decompress(self.whole[self.body_at : -SYNC_BYTES], RAW_DEFLATE)


@dataclass(frozen=True, slots=True)
class Container:
    """A file in its parts. `metadata` is what its header tells."""

    header: bytes
    metadata: Mapping[str, str]
    blocks: tuple[Block, ...]

    def only(self, blocks: Sequence[Block]) -> bytes:
        """The bytes of the same file with no other blocks than these."""
        return self.header + b"".join(block.whole for block in blocks)

    @property
    def sync(self) -> bytes:
        """What stands at the end of every block."""
        return self.header[-SYNC_BYTES:]


def assembled(metadata: Mapping[str, str], sync: bytes, blocks: Iterable[tuple[int, bytes]]) -> bytes:
    """A file with blocks, each so many records one after the other, which are compressed with deflate here.

    The same bytes each time.
    """
    parts = [MAGIC, _long_bytes(len(metadata))]
    for name, value in metadata.items():
        parts += [_sized(name.encode()), _sized(value.encode())]
    parts += [_long_bytes(0), sync]
    for count, records in blocks:
        parts += [_long_bytes(count), _sized(_deflated(records)), sync]
    return b"".join(parts)


def split(data: bytes) -> Container:
    """The parts of a file; `ValueError` or `IndexError` if it is damaged."""
    if not data.startswith(MAGIC):
        raise ValueError("it is not an Avro file")
    metadata, at = _text_by_name(data, len(MAGIC))
    at += SYNC_BYTES
    header, sync = data[:at], data[at - SYNC_BYTES : at]
    blocks = []
    while at < len(data):
        count, size_at = _long(data, at)
        size, body_at = _long(data, size_at)
        end = body_at + size
        if size < 0 or data[end : end + SYNC_BYTES] != sync:
            raise ValueError(f"the block at byte {at} does not end where it should")
        blocks.append(Block(count, data[at : end + SYNC_BYTES], body_at - at))
        at = end + SYNC_BYTES
    return Container(header, metadata, tuple(blocks))


def _text_by_name(data: bytes, at: int) -> tuple[dict[str, str], int]:
    """The map that a header is, and where it ends."""
    found: dict[str, str] = {}
    count, at = _long(data, at)
    while count:
        if count < 0:  # then its size in bytes comes next, for those who want to pass over it
            _, at = _long(data, at)
        for _ in range(abs(count)):
            name, at = _bytes(data, at)
            value, at = _bytes(data, at)
            found[name.decode()] = value.decode()
        count, at = _long(data, at)
    return found, at


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(data, at)
    if not 0 <= size <= len(data) - at:
        raise ValueError(f"the length at byte {at} is wrong")
    return data[at : at + size], at + size


def _long(data: bytes, at: int) -> tuple[int, int]:
    """A number in Avro's form, seven bits in each byte and the sign in the lowest, and where it ends."""
    byte = data[at]
    if byte < 0x80:  # as most are
        return (byte >> 1) ^ -(byte & 1), at + 1
    shift = number = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7


def _long_bytes(number: int) -> bytes:
    """A count or a size, which is never negative, in Avro's form."""
    rest, out = number << 1, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*out, rest))


def _sized(data: bytes) -> bytes:
    return _long_bytes(len(data)) + data


def _deflated(records: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=RAW_DEFLATE)
    return compressor.compress(records) + compressor.flush()
