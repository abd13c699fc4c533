"""What happens around commits: control entries, recovery, hooks."""
