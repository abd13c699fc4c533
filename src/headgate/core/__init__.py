"""Pure decisions: given values, what is to be done. No I/O, no clock, no randomness."""
