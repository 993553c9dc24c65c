"""Compiled kernels. Each takes plain buffers, checks every range, and imports nothing of toolkit."""
