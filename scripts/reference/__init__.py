"""Generates the reference pages from the code: `make reference`. A test fails if one of them is stale."""
