"""Text and JSON: the family of steps."""
