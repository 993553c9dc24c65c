"""Records that a program gives, one by one or as an object that holds them, become a dataset."""
