"""Pictures of the terminal for the documentation, made by running the commands: `make screens`."""
