"""Writes the pages of the reference: `python -m scripts.reference`."""

from __future__ import annotations

import sys

from scripts.reference.pages import DIRECTORY, PAGES


def main() -> None:
    DIRECTORY.mkdir(exist_ok=True)
    for name, make in PAGES.items():
        text = make()
        page = DIRECTORY / name
        if not page.exists() or page.read_text() != text:
            page.write_text(text)
            sys.stdout.write(f"wrote {page}\n")


if __name__ == "__main__":
    main()
