"""Windows, whole documents and rows of token datasets."""
