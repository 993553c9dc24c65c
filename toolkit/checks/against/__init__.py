"""A version of a dataset against the source that it was packed of: which samples differ, of however many."""
