"""Replicas: copies of a lake at another location that follow it version by version."""
