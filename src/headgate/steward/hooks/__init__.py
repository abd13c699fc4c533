"""Actions that run after a commit, and the code that runs them."""
