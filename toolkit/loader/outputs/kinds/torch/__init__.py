"""torch tensors over a batch's memory, or on a device."""
