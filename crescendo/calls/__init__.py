"""The Python calls: they take records or a run file, and the common keys of a run as plain keywords."""
