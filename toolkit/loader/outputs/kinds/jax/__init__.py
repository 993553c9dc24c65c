"""JAX arrays over a batch's memory, or placed on a mesh of devices."""
