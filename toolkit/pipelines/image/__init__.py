"""The medium image: formats, decoding, steps."""
