"""Directories that a lake of the model mounts."""

from __future__ import annotations

import pytest

from tests.isolation.lake_model import Mounts


@pytest.fixture(scope="session")
def mounts(tmp_path_factory: pytest.TempPathFactory) -> Mounts:
    directories = [tmp_path_factory.mktemp(f"mounted{rows}") for rows in (1, 2)]
    for rows, directory in enumerate(directories, 1):
        (directory / "rows.csv").write_text("n\n" + "7\n" * rows)
    return Mounts(tuple(map(str, directories)))
