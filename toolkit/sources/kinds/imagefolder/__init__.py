"""Folders of images, in folders of classes and splits or not."""
