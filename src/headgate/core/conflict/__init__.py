"""Whether a transaction still holds on top of what others committed: the rules, and what they compare."""
