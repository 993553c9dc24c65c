"""Folders of files that belong together by their names."""
