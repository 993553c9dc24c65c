"""Other libraries' transforms as chains: what means the same, and an error that names what doesn't."""
