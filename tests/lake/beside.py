"""A rewriter for compactors in tests: it works as Arrow does, and others go on meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from headgate.iceberg.arrow_rewrite import ArrowRewriter
from headgate.iceberg.rewriting import Clustering, RewriteGroup, Rewritten
from headgate.iceberg.target import Target


@dataclass
class Beside:
    """After each group something else happens."""

    happens: Callable[[], None]

    def __call__(self, target: Target, spark: object) -> Beside:
        return self

    def rewritten(
        self, target: Target, groups: Sequence[RewriteGroup], clustering: Clustering | None
    ) -> Iterator[Rewritten]:
        for done in ArrowRewriter().rewritten(target, groups, clustering):
            yield done
            self.happens()
