"""The explorer catches broken protocols, and the laws say what is broken."""

from __future__ import annotations

import pytest

from tests.exploration import laws as protocol_laws
from tests.exploration.variants import VARIANTS, Variant


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_a_broken_protocol_is_caught(variant: Variant) -> None:
    violation = variant.explorer().explore().violation

    assert violation is not None
    assert variant.law in violation.law


def test_every_law_catches_something() -> None:
    laws = {value for name, value in vars(protocol_laws).items() if name.isupper() and isinstance(value, str)}

    assert laws - {variant.law for variant in VARIANTS} == set()
