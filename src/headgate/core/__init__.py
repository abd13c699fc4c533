"""Pure decisions: given values, what to do. No I/O, no clock, no randomness."""
