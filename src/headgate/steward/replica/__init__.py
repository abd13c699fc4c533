"""Replicas: the same lake at another place, which follows it version by version."""
