"""From the arguments of a caller to a solved problem."""
