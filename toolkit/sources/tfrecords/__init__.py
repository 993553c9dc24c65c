"""Records of TFRecord files, and the examples in them, for the kinds of sources that have such files."""
