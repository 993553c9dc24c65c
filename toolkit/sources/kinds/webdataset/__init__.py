"""Tars of samples."""
