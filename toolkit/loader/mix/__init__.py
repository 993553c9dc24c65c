"""Several datasets dealt out by weights."""
