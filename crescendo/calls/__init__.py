"""What a Python program calls: records or a run file in, the common keys of a run as plain keywords."""
