"""Arrays whose first index is the row, whichever file they lie in: names, types, pieces."""
