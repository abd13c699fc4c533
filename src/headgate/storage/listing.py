"""A whole listing, page after page."""

from __future__ import annotations

from headgate.errors import StorageError
from headgate.storage.capabilities import ListInPages

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
