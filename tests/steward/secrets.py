"""Credentials in many shapes, and a search for them through everything that a lake has on disk.

What is looked at is the whole directory: names, and bytes, as they are and with everything decompressed.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import headgate as hg
from headgate.iceberg.format.container import split

S = "hunter2hunter2hunter2"
"""What is searched for; some shapes have their own."""
SHAPES = {
    "user of a url": f"postgres://ann:{S}@db.example/x",
    "user alone": f"s3://{S}@bucket/x",
    "url in a url": f"https://x.example/?next=https%3A%2F%2Fann%3A{S}%40db%2Fx",
    "option and value": f"tool --password {S} --day 1",
    "option with an equals sign": f"--password={S}",
    "quoted option": f'tool --api-key "{S}"',
    "aws key": "AKIAIOSFODNN7EXAMPLE",
    "aws secret": f"AWS_SECRET_ACCESS_KEY={S}",
    "sas": f"https://a.blob.core.windows.net/c?sv=2024&sig={S}&se=1",
    "presigned": f"https://b.s3.amazonaws.com/k?X-Amz-Signature={S}&X-Amz-Expires=1",
    "account key": f"AccountName=a;AccountKey={S};EndpointSuffix=x",
    "bearer": f"Authorization: Bearer {S}",
    "bearer alone": f"bearer {S}",
    "basic": f"Authorization: Basic {S}=",
    "json": f'{{"access_token": "{S}", "a": 1}}',
    "json in json": f'{{\\"token\\": \\"{S}\\"}}',
    "list in json": f'{{"password": ["{S}"]}}',
    "header": f"x-api-key: {S}",
    "pem": f"-----BEGIN RSA PRIVATE KEY-----\n{S}\n-----END RSA PRIVATE KEY-----",
    "pem on one line": f"-----BEGIN PRIVATE KEY----- {S} -----END PRIVATE KEY-----",
    "openssh": f"-----BEGIN OPENSSH PRIVATE KEY-----\n{S}",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "github": "ghp_0123456789abcdefghij",
    "gitlab": "glpat-0123456789abcdefghij",
    "slack": "xoxb-0123456789-abcdefghij",
    "slack webhook": f"https://hooks.slack.com/services/T0/B0/{S}",
    "google": "AIza0123456789abcdefghijklmnopqrstuvwxyz",
    "databricks": "dapi0123456789abcdef0123456789abcdef",
    "npm": "npm_0123456789abcdefghijklmnopqrstuvwxyz",
    "yaml": f"password: {S}",
    "properties": f"db.password={S}",
}
SECRETS = (
    S,
    *(
        SHAPES[name]
        for name in ("aws key", "jwt", "github", "gitlab", "slack", "google", "databricks", "npm")
    ),
)


def everything(root: Path) -> Iterator[tuple[str, bytes]]:
    """Every name and every byte, also those that are compressed."""
    for path in sorted(root.rglob("*")):
        yield f"the name {path}", str(path.relative_to(root)).encode()
        if path.is_symlink() or not path.is_file():
            continue
        data = path.read_bytes()
        yield str(path), data
        for inside in decompressed(data):
            yield f"inside {path}", inside


def decompressed(data: bytes) -> Iterator[bytes]:
    if data[:2] == b"\x1f\x8b":
        yield gzip.decompress(data)
    if data[:4] == b"PAR1":
        file = pq.ParquetFile(pa.BufferReader(data))
        yield repr((file.schema_arrow, file.metadata, file.schema_arrow.metadata)).encode()
        yield repr(file.read().to_pylist()).encode()
    if data[:4] == b"Obj\x01":
        yield from split(data).records()  # its header is not compressed


def require_nowhere(root: Path) -> None:
    searched = 0
    for where, data in everything(root):
        searched += 1
        for secret in SECRETS:
            assert secret.encode() not in data, (secret, where, data[:300])
    assert searched > 20


class Attempts:
    """Calls that may be refused; something has to be done all the same."""

    def __init__(self) -> None:
        self.done = self.refused = 0

    def __call__(self, call: Callable[[], Any]) -> None:
        try:
            call()
            self.done += 1
        except hg.HeadgateError:
            self.refused += 1
