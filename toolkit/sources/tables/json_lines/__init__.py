"""Tables as JSON lines: an object a line."""
