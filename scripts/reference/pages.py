"""The list of the reference pages, with the function that generates each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from scripts.reference.api import api_page
from scripts.reference.commands import commands_page
from scripts.reference.errors import errors_page
from scripts.reference.formats import formats_page
from scripts.reference.settings import settings_page

DIRECTORY = Path(__file__).parent.parent.parent / "docs" / "reference"
PAGES: Mapping[str, Callable[[], str]] = MappingProxyType(
    {
        "api.md": api_page,
        "commands.md": commands_page,
        "settings.md": settings_page,
        "errors.md": errors_page,
        "formats.md": formats_page,
    }
)
