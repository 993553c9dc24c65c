"""Compiled: bytes out of mapped shards, checked as they are copied."""
