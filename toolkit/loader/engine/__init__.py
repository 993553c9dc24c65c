"""Batches planned ahead, let in by a budget, filled on threads, delivered in order."""
