"""Iceberg tables: metadata bytes and our values, on pyiceberg's models of schemas, specs and expressions."""
