"""Index a source: a pack whose media stay in their source files."""
