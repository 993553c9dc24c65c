"""What files of text are called, compressed or not: by their names alone is told what their rows are."""

from __future__ import annotations

__all__ = ["CSV", "JSON_LINES", "METADATA", "METADATA_CSV", "PACKED", "TSV", "is_delimited", "names_file"]

PACKED = ("", ".gz", ".bz2", ".xz", ".zst")
CSV = tuple(f".csv{packed}" for packed in PACKED)
TSV = tuple(f"{stem}{packed}" for stem in (".tsv", ".tab") for packed in PACKED)
JSON_LINES = tuple(f"{stem}{packed}" for stem in (".jsonl", ".ndjson") for packed in PACKED)

METADATA_CSV = "metadata.csv"
METADATA = (METADATA_CSV, "metadata.jsonl", "metadata.parquet")
"""What tells of the files beside it, for Hugging Face's image folders."""


def names_file(field: str) -> bool:
    """Tell whether a field of such a file is that of a path, or of several."""
    return field in ("file_name", "file_names") or field.endswith(("_file_name", "_file_names"))


def is_delimited(name: str) -> bool:
    """Tell whether a name is that of a CSV or TSV file."""
    return name.lower().endswith((*CSV, *TSV))
