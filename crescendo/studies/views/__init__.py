"""Views of comparisons and sweeps: a repr line, a notebook table, a plot."""
