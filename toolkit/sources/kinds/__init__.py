"""One folder a kind of source; `spec.py` in it says what the kind is."""
