"""Iceberg tables and no engine: metadata bytes, schemas, predicates, planning."""
