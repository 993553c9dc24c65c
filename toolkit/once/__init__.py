"""What is no dataset yet, opened at once: listed or read into memory, kept by a first pack, packed later."""
