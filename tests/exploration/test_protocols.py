"""Every interleaving of the shipped protocols keeps the laws of the commit log."""

from __future__ import annotations

import pytest

from tests.exploration.report import CONFIGURATIONS


@pytest.mark.parametrize(
    "name",
    [
        *(name for name, each in CONFIGURATIONS.items() if not each.deep),
        *(
            pytest.param(name, marks=pytest.mark.nightly)
            for name, each in CONFIGURATIONS.items()
            if each.deep
        ),
    ],
)
def test_no_order_of_requests_breaks_a_law(name: str) -> None:
    configuration = CONFIGURATIONS[name]

    exploration = configuration.explorer().explore()

    assert exploration.violation is None, f"{exploration.violation}"
    assert exploration.complete
    assert exploration.worlds >= configuration.worlds, "the explorer left something out"
