"""Which sample comes when, as numbers alone: orders, ranks, courses, states."""
