"""How many random examples the property tests try, and which."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# `make nightly` sets it to the date, so that every night tries other seeds; the date replays a night.
_NIGHT = int(os.environ.get("HEADGATE_NIGHT", "0"))
_SEEDS_OF_A_NIGHT = 100_000

# `make search` tries more, and other ones each time. `make test` tries the same ones each time, so that what
# it says of a change is about the change.
_TIMES = int(os.environ.get("HEADGATE_EXAMPLES", "0"))


def examples(count: int) -> int:
    """As many examples as a test wants in `make test`, or a multiple of them in a search."""
    return count * max(_TIMES, 1)


def seed_of_tonight(number: int) -> int:
    """The seed with this number among those of the night; in `make test`, the number itself."""
    assert 0 <= number < _SEEDS_OF_A_NIGHT
    return _NIGHT * _SEEDS_OF_A_NIGHT + number


def load_profile() -> None:
    settings.register_profile(
        "headgate",
        derandomize=not _TIMES and not _NIGHT,
        max_examples=examples(100),
        print_blob=True,
        # How long an example takes is about the machine, and what else it does.
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("headgate")
