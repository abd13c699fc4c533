"""Frozen values: the nouns of the lake. Nothing here performs I/O or knows the time."""
