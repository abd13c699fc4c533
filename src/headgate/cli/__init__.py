"""The command line: renders what the public objects return. No decisions are made here."""

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
from headgate.cli.app import main

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
