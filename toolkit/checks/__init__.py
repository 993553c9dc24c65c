"""What is asked of a dataset, and of the machine: one file a command."""
