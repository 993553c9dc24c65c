"""Datasets that refer to values where they lie: a pack whose media stay in their source files."""
