"""The demo: what `headgate demo` and `make demo` show."""
