"""ROXXEL02 files of token ids."""
