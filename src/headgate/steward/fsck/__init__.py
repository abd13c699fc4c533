"""Checks a whole lake without changing it, and repairs its log."""
