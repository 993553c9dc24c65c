"""CSV and TSV files, and folders of pictures that one tells of."""
