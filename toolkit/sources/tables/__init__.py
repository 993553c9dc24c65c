"""Tables of rows and fields, wherever they come from, and the files that their rows name."""
