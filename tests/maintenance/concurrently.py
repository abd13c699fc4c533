"""A rewriter for compactors in tests: it works as Arrow does, and others go on meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from headgate.arrow.rewrite import ArrowRewriter
from headgate.iceberg.format.directories import Target
from headgate.iceberg.scan.engine import Clustering, RewriteGroup, Rewritten


@dataclass
class Beside:
    """After each group something else happens."""

    happens: Callable[[], None]

    def __call__(self, target: Target, spark: object) -> Beside:
        return self

    def rewrite(
        self, target: Target, groups: Sequence[RewriteGroup], clustering: Clustering | None
    ) -> Iterator[Rewritten]:
        for done in ArrowRewriter().rewrite(target, groups, clustering):
            yield done
            self.happens()
