"""Columns, partition specs and sort orders: how callers write them, and how they change."""
