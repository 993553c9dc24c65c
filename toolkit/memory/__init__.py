"""Memory that batches live in."""
