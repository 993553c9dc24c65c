"""What a package adds to toolkit: one file for each thing, and an entry point for each in pyproject.toml."""
