"""Writes DataFrames to data files."""
