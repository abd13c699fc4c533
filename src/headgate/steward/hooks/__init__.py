"""Actions that run after a commit, and who runs them."""
