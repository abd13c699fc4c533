"""Predicates on the columns of a table, and what metadata alone reveals about them."""
