"""Opened datasets and views of them: rows found, fetched and checked."""
