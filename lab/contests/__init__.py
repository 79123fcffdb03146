"""Contests with rival algorithms, each tuned with as many trials, on records that are no test records."""
