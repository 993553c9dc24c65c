"""Values that stay in their source files: where they lie, and what stands for them in shards."""
