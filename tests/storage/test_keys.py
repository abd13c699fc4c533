"""Which keys are allowed. What is allowed must be safe on every store, so this is tried on real ones."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore as ObstoreMemory

from headgate.errors import InvalidInputError
from headgate.storage.local import LocalStore
from headgate.storage.memory import MemoryStore
from headgate.storage.object import ObjectStore
from headgate.storage.requests import checked_key, checked_prefix
from headgate.testing.contracts import KEYS_OUTSIDE, ODD_KEYS, all_keys

HARMLESS = "ab.-_ %+=~ü日😀"
ANY_KEY = st.text(st.sampled_from(HARMLESS + "///\\\0\n\t\ud800"), max_size=12)
SEGMENTS = st.text(st.sampled_from(HARMLESS), min_size=1, max_size=4).filter(lambda part: part.strip("."))
ALLOWED_KEY = st.lists(SEGMENTS, min_size=1, max_size=4).map("/".join)


def is_allowed(key: str) -> bool:
    try:
        return checked_key(key) == key
    except InvalidInputError:
        return False


@pytest.mark.parametrize("key", ODD_KEYS)
def test_odd_keys_are_allowed(key: str) -> None:
    assert is_allowed(key)
    assert checked_prefix(f"{key}/") == f"{key}/"


@pytest.mark.parametrize("key", KEYS_OUTSIDE)
def test_keys_outside_are_refused(key: str) -> None:
    assert not is_allowed(key)
    with pytest.raises(InvalidInputError):
        checked_prefix(f"{key}/")


def test_no_prefix_means_everything() -> None:
    assert checked_prefix("") == ""


@given(ANY_KEY)
def test_an_allowed_key_stays_inside_any_directory(key: str) -> None:
    if is_allowed(key):
        root = Path("/somewhere/lake")
        path = Path(*root.parts, *key.split("/"))
        assert path.is_relative_to(root)
        assert path != root
        assert ".." not in path.parts


@settings(deadline=None)
@given(ANY_KEY | ALLOWED_KEY)
def test_an_allowed_key_comes_back_from_every_store_as_it_was(key: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        stores = (
            MemoryStore(),
            LocalStore(Path(directory) / "lake", fsync=False),
            ObjectStore(ObstoreMemory(), "memory://"),
        )
        for store in stores:
            if is_allowed(key):
                store.put(key, b"1")
                assert store.get(key) == b"1"
                assert all_keys(store) == [key]
            else:
                with pytest.raises(InvalidInputError):
                    store.put(key, b"1")


@settings(deadline=None)
@given(st.sets(ALLOWED_KEY, max_size=8), ALLOWED_KEY)
def test_all_stores_list_alike(keys: set[str], after: str) -> None:
    objects = {key for key in keys if not any(other.startswith(f"{key}/") for other in keys)}
    with tempfile.TemporaryDirectory() as directory:
        stores = (
            MemoryStore(),
            LocalStore(Path(directory) / "lake", fsync=False),
            ObjectStore(ObstoreMemory(), "memory://"),
        )
        for store in stores:
            for key in objects:
                store.put(key, b"")
            assert all_keys(store) == sorted(objects)
            assert store.list_page("", after).keys == tuple(sorted(key for key in objects if key > after))
