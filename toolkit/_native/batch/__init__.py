"""Kernels over whole batches: samples mixed with each other, in place."""
