"""What several tests of the steward begin with."""

from __future__ import annotations

import pytest

import headgate as hg
from headgate.storage.memory import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    """The storage of a lake without a version, whose windows are short."""
    store = MemoryStore()
    hg.Lake.init(store, strategy="conditional", divisor=4)
    return store
