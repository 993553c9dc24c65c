"""How columns of samples are filled."""
