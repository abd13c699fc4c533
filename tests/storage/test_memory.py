"""What the contract does not say about the store in memory."""

from __future__ import annotations

from headgate.storage.memory import MemoryStore


def test_each_store_is_its_own() -> None:
    one, other = MemoryStore("one"), MemoryStore("other")
    one.put("key", b"1")
    assert other.get("key") is None
    assert (one.describe(), other.describe()) == ("memory://one", "memory://other")


def test_a_listing_is_one_page_however_long() -> None:
    store = MemoryStore()
    for number in range(3000):
        store.put(f"log/{number:05}", b"")
    page = store.list_page("log/")
    assert (len(page.keys), page.complete) == (3000, True)
    assert store.list_page("log/", "log/02998").keys == ("log/02999",)


def test_keys_and_objects_stay_in_step() -> None:
    store = MemoryStore()
    for number in range(200):
        store.put(f"{number % 7}", str(number).encode())
        store.delete(f"{number % 5}")
        store.rename_no_replace(f"{number % 7}", f"moved-{number % 3}")
        assert [key for key in store.list_page("").keys if store.get(key) is None] == []
