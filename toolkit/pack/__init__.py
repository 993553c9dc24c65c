"""Packing: a job becomes tasks, tasks become shards, shards become a committed version."""
