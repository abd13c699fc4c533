"""Avro container files as bytes: the header and the blocks, without decoding the records.

fastavro reads and writes records, and always decompresses every block. With this module, a reader can skip
blocks, and copy blocks from one file to another.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headgate.iceberg.format.writer_schema import Shape, WriterSchema, writer_schema
from headgate.model.limits import (
    BLOCK_BYTES,
    BLOCKS,
    COUNTED_BYTES,
    ENTRIES,
    EXPANDED_BYTES,
    HEADER_FIELDS,
    ITEMS_IN_AN_ENTRY,
)

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
RAW_DEFLATE = -15


@dataclass(frozen=True, slots=True)
class Block:
    """Some records: `whole` is the whole block in the file; the records begin at `body_at`."""

    count: int
    whole: bytes
    body_at: int

    @property
    def body(self) -> bytes:
        return self.whole[self.body_at : -SYNC_BYTES]


@dataclass(frozen=True, slots=True)
class Container:
    """The parts of a file. `metadata` is the content of its header."""

    header: bytes
    metadata: Mapping[str, str]
    blocks: tuple[Block, ...]

    def only(self, blocks: Sequence[Block]) -> bytes:
        """The bytes of the same file with only these blocks."""
        return self.header + b"".join(block.whole for block in blocks)

    @property
    def schema(self) -> WriterSchema:
        """`ValueError` or `KeyError` unless records of manifests can have it."""
        return writer_schema(self.metadata["avro.schema"])

    def records(self, blocks: Sequence[Block] | None = None) -> Iterator[bytes]:
        """The records of each of the blocks, or of all, decompressed one after the other.

        Raises `ValueError` before decoding them could take more memory than the limits allow.
        """
        schema, codec = self.schema, self.metadata.get("avro.codec", "null")
        if codec not in ("null", "deflate"):
            raise ValueError(f"it is compressed with {codec[:80]!r}, but only deflate is supported")
        left = EXPANDED_BYTES
        for block in self.blocks if blocks is None else blocks:
            data = block.body if codec == "null" else _inflated(block.body, min(left, BLOCK_BYTES))
            left -= len(data)
            if block.count * schema.shape.least > len(data):
                raise ValueError(f"a block of {len(data):,} bytes cannot have {block.count:,} entries")
            if len(data) > COUNTED_BYTES:
                _require_few_items(schema.shape, data, block.count)
            yield data

    @property
    def sync(self) -> bytes:
        """The marker at the end of every block."""
        return self.header[-SYNC_BYTES:]


def assembled(metadata: Mapping[str, str], sync: bytes, blocks: Iterable[tuple[int, bytes]]) -> bytes:
    """A file from blocks, each given as a number of records and their bytes, which are compressed here.

    Deterministic: the same input gives the same bytes.
    """
    parts = [MAGIC, long_bytes(len(metadata))]
    for name, value in metadata.items():
        parts += [_sized(name.encode()), _sized(value.encode())]
    parts += [long_bytes(0), sync]
    for count, records in blocks:
        parts += [long_bytes(count), _sized(_deflated(records)), sync]
    return b"".join(parts)


def _inflated(body: bytes, at_most: int) -> bytes:
    expander = zlib.decompressobj(RAW_DEFLATE)
    found = expander.decompress(body, at_most + 1)
    if len(found) > at_most:
        raise ValueError(
            f"it expands to more than {EXPANDED_BYTES:,} bytes, or a block to more than {BLOCK_BYTES:,}"
        )
    if not expander.eof:
        raise ValueError("a block is incomplete")
    return found


def split(data: bytes) -> Container:
    """The parts of a file; `ValueError` or `IndexError` if it is damaged, or claims to have too much."""
    if not data.startswith(MAGIC):
        raise ValueError("it is not an Avro file")
    metadata, at = _text_by_name(data, len(MAGIC))
    at += SYNC_BYTES
    header, sync = data[:at], data[at - SYNC_BYTES : at]
    blocks: list[Block] = []
    entries = 0
    while at < len(data):
        if len(blocks) == BLOCKS:
            raise ValueError(f"it has more than {BLOCKS:,} blocks")
        count, size_at = read_long(data, at)
        size, body_at = read_long(data, size_at)
        end = body_at + size
        if size < 0 or data[end : end + SYNC_BYTES] != sync:
            raise ValueError(f"the block at byte {at} does not end where it should")
        entries += count
        if count < 1 or entries > ENTRIES:
            raise ValueError(f"it has more than {ENTRIES:,} entries, or a block without any")
        blocks.append(Block(count, data[at : end + SYNC_BYTES], body_at - at))
        at = end + SYNC_BYTES
    return Container(header, metadata, tuple(blocks))


class PlainFile:
    """The same file without compression, to be read from its beginning to its end.

    Only one block is decompressed at a time.
    """

    def __init__(self, container: Container) -> None:
        self._parts = _plain_parts(container)
        self._part, self._at = b"", 0

    def read(self, size: int = -1) -> bytes:
        """The next bytes, not more than `size`, and fewer only at the end of a part."""
        while self._at == len(self._part):
            part = next(self._parts, None)
            if part is None:
                return b""
            self._part, self._at = part, 0
        found = self._part if size == len(self._part) else self._part[self._at : self._at + size]
        self._at += len(found)
        return found


def _plain_parts(container: Container) -> Iterator[bytes]:
    metadata = {"avro.schema": container.metadata["avro.schema"], "avro.codec": "null"}
    yield assembled(metadata, container.sync, [])
    for block, records in zip(container.blocks, container.records(), strict=True):
        yield long_bytes(block.count) + long_bytes(len(records))
        yield records
        yield container.sync


def _text_by_name(data: bytes, at: int) -> tuple[dict[str, str], int]:
    """The map in the header, and the offset of its end."""
    found: dict[str, str] = {}
    count, at = read_long(data, at)
    while count:
        if len(found) + abs(count) > HEADER_FIELDS:
            raise ValueError(f"its header has more than {HEADER_FIELDS} fields")
        if count < 0:  # then its size in bytes comes next, for readers that skip it
            _, at = read_long(data, at)
        for _ in range(abs(count)):
            name, at = _bytes(data, at)
            value, at = _bytes(data, at)
            found[name.decode()] = value.decode()
        count, at = read_long(data, at)
    return found, at


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = read_long(data, at)
    if not 0 <= size <= len(data) - at:
        raise ValueError(f"the length at byte {at} is wrong")
    return data[at : at + size], at + size


def _sized(data: bytes) -> bytes:
    return long_bytes(len(data)) + data


def _deflated(records: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=RAW_DEFLATE)
    return compressor.compress(records) + compressor.flush()


# --- numbers: seven bits per byte, the sign in the lowest bit -----------------------------------------------

LONGEST = 10
"""How many bytes a number of 64 bits has at most."""


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """A number, and the offset of its end. `ValueError` or `IndexError` if there is none."""
    byte = data[at]
    if byte < 0x80:  # the common case
        return (byte >> 1) ^ -(byte & 1), at + 1
    shift = number = 0
    for offset in range(at, at + LONGEST):
        byte = data[offset]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), offset + 1
        shift += 7
    raise ValueError(f"the number at byte {at} does not end")


def long_bytes(number: int) -> bytes:
    """A count or a size, which is never negative, in Avro's form."""
    rest, out = number << 1, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*out, rest))


# --- how many items records claim to have -------------------------------------------------------------------


def _require_few_items(shape: Shape, data: bytes, count: int) -> None:
    """Raises `ValueError` if one of the `count` records in `data` has too many items in its lists."""
    at = 0
    for _ in range(count):
        at = _Walk(data).past(shape, at)


@dataclass(slots=True)
class _Walk:
    """Skips one record, and counts the items of its lists."""

    data: bytes
    items: int = 0

    def past(self, shape: Shape, at: int) -> int:
        """The offset behind a value at `at`."""
        match shape.kind:
            case "fixed":
                return at + shape.least
            case "long":
                return read_long(self.data, at)[1]
            case "bytes":
                size, at = read_long(self.data, at)
                if not 0 <= size <= len(self.data) - at:
                    raise ValueError(f"the length at byte {at} is wrong")
                return at + size
            case "union":
                branch, at = read_long(self.data, at)
                if branch not in (0, 1):
                    raise ValueError(f"the branch at byte {at} is wrong")
                return self.past(shape.parts[branch], at)
            case "array":
                return self._past_list(shape.parts[0], at)
        for part in shape.parts:
            at = self.past(part, at)
        return at

    def _past_list(self, item: Shape, at: int) -> int:
        count, at = read_long(self.data, at)
        while count:
            if count < 0:  # then its size in bytes comes next
                _, at = read_long(self.data, at)
            self.items += abs(count)
            if self.items > ITEMS_IN_AN_ENTRY:
                raise ValueError(f"an entry has more than {ITEMS_IN_AN_ENTRY:,} numbers and bounds")
            for _ in range(abs(count)):
                at = self.past(item, at)
            count, at = read_long(self.data, at)
        return at
