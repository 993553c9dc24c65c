"""Files of text: JSON lines, and plain ones."""
