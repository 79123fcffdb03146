"""Contests with rival algorithms, each tuned with the same number of trials on a part of the training records."""
