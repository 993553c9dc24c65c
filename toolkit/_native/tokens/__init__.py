"""Compiled: windows of tokens, and documents fitted into rows."""
