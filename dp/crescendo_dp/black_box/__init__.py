"""Black-box audit: a lower bound on the epsilon of any callable, from its releases alone."""
