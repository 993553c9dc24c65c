"""What an option is, the values it takes, and how they are read from texts, YAML and Python. Parses no command line."""
