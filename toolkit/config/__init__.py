"""YAML configs: which keys there are, what each takes, and where a mistake is. Prints nothing, parses no flags."""
