"""Where bytes live. Maps every OSError to an error that names the path and says what to do."""
