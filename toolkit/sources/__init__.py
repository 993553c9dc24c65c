"""What can be packed: each source lists or yields its samples and writes nothing."""
