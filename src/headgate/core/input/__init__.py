"""What callers give: arguments, names, settings and secrets, checked before anything is done."""
