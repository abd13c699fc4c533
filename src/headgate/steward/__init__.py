"""What follows a commit: publishing, hooks, control entries, recovery, replicas, fsck."""
