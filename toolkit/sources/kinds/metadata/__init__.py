"""Hugging Face's image folders: pictures, and metadata.csv, metadata.jsonl or metadata.parquet beside them."""
