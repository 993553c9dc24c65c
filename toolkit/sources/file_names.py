"""What files of text are called, compressed or not: by their names alone is told what their rows are."""

from __future__ import annotations

__all__ = ["CSV", "JSON_LINES", "PACKED", "TSV", "is_delimited"]

PACKED = ("", ".gz", ".bz2", ".xz", ".zst")
CSV = tuple(f".csv{packed}" for packed in PACKED)
TSV = tuple(f"{stem}{packed}" for stem in (".tsv", ".tab") for packed in PACKED)
JSON_LINES = tuple(f"{stem}{packed}" for stem in (".jsonl", ".ndjson") for packed in PACKED)


def is_delimited(name: str) -> bool:
    """Tell whether a name is that of a CSV or TSV file."""
    return name.lower().endswith((*CSV, *TSV))
