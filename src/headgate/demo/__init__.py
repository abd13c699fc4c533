"""The demonstration: what `headgate demo` and `make demo` show."""
