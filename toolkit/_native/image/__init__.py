"""Compiled: pictures decoded, transformed and encoded."""
