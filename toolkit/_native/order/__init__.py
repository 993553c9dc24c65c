"""Compiled: orders as arithmetic."""
