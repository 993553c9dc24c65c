"""Compiled: memory given back."""
