"""What a batch is delivered as: numpy, torch or JAX over the same memory."""
