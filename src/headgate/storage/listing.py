"""A whole listing, page after page."""

from __future__ import annotations

from headgate.errors import StorageError
from headgate.storage.capabilities import ListInPages, ListSizes, ListTimes, Stored

MAX_PAGES = 100_000


def all_keys(store: ListInPages, prefix: str, after: str | None = None) -> list[str]:
    """Every key below `prefix`, or those above `after`. Each page is observed at its own moment."""
    keys: list[str] = []
    for _ in range(MAX_PAGES):
        page = store.list_page(prefix, keys[-1] if keys else after)
        keys.extend(page.keys)
        if page.complete:
            return keys
    raise StorageError(f"the listing of {prefix!r} did not end within {MAX_PAGES} pages")


def all_sizes(store: ListSizes, prefix: str) -> dict[str, int]:
    """The size of every object below `prefix`, by key. Each page is observed at its own moment."""
    sizes: dict[str, int] = {}
    after: str | None = None
    for _ in range(MAX_PAGES):
        page = store.list_sizes(prefix, after)
        sizes.update(page.sizes)
        if page.complete:
            return sizes
        after = page.sizes[-1][0]
    raise StorageError(f"the listing of {prefix!r} did not end within {MAX_PAGES} pages")


def all_times(store: ListTimes, prefix: str) -> list[Stored]:
    """Every object below `prefix` with the time of its writing. Each page is observed at its own moment."""
    found: list[Stored] = []
    for _ in range(MAX_PAGES):
        page = store.list_times(prefix, found[-1].key if found else None)
        found.extend(page.objects)
        if page.complete:
            return found
    raise StorageError(f"the listing of {prefix!r} did not end within {MAX_PAGES} pages")
