"""What the SQL of `toolkit query` may say, found out from its text alone, before polars sees any of it."""
