"""Fixtures that several folders of tests share."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from uuid import uuid4

import pytest

from headgate.storage.capabilities import Store
from headgate.storage.location import open_store

# Before it is imported, so that a contract that does not hold shows its values.
pytest.register_assert_rewrite("headgate.testing.contracts", "headgate.testing.action_contract")

from tests.examples import load_profile  # noqa: E402
from tests.servers.s3 import S3Server, s3_server  # noqa: E402

# Before the tests are imported: their settings start from it.
load_profile()

# Shells start what goes on in the background deaf to Ctrl-C, and the processes of tests would be so, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """An S3 API server for all tests of this process. Tests that use it are `slow`."""
    with s3_server() as server:
        yield server


@pytest.fixture
def s3_store(s3: S3Server) -> Store:
    """An empty place on the server."""
    return open_store(s3.url(f"test-{uuid4().hex}"), s3.options)
