"""Reads tables, files, changed rows and the log as DataFrames."""
