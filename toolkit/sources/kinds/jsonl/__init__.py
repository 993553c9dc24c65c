"""Tables of JSON lines."""
