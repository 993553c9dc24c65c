"""HDF5 files: a row for each first index of their datasets."""
