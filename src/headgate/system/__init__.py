"""The operating system: time, randomness, threads, forks."""
