"""Folders of TensorFlow Datasets."""
