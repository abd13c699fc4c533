"""The command line: renders what the public objects return, and decides nothing."""

from headgate.cli import (
    checking,
    clustering,
    compaction,
    data,
    objects,
    replicas,
    retention,
    stewardship,
)  # their commands join those of the app
from headgate.cli.app import app, main
from headgate.cli.options import unwrap_help

__all__ = [
    "checking",
    "clustering",
    "compaction",
    "data",
    "main",
    "objects",
    "replicas",
    "retention",
    "stewardship",
]

for _group in (app, stewardship.hooks):
    unwrap_help(_group)
