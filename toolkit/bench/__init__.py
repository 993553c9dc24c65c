"""Benchmarks: cases to figures, each case in a process of its own."""
