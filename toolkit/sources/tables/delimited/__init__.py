"""Tables as delimited text: CSV, TSV and their like."""
