"""Comparisons and sweeps as people look at them: a line, a table in a notebook, a plot."""
