"""What recovery found and did, for its caller."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What `Lake.recover` did, up to version `until`.

    `looked_from` is the version up to which nothing was missing when it began. `entries` are the versions
    whose control entries were made again. `cancelled_plans` were given up, since nobody was carrying them
    out; it took a version of its own, `cancelled_by`. `not_published` are tables whose metadata cannot be
    read, with why: `fsck` tells more. `hooks_done` and `hooks_open` name the version and the
    hook: open ones have failed again, wait for others, or are not registered here.
    """

    looked_from: int
    until: int
    entries: tuple[int, ...] = ()
    published: tuple[str, ...] = ()
    not_published: tuple[str, ...] = ()
    checkpoints: tuple[int, ...] = ()
    cancelled_plans: tuple[str, ...] = ()
    cancelled_by: int | None = None
    hooks_done: tuple[str, ...] = ()
    hooks_open: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether there was anything to do."""
        return bool(
            self.entries or self.published or self.checkpoints or self.cancelled_plans or self.hooks_done
        )
