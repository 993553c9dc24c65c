"""NumPy files (.npy, .npz): a row for each first index of their arrays."""
