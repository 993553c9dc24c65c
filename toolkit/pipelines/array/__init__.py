"""Numbers and arrays of them: the family of steps, and how stored bytes and lists become arrays."""
