"""Studies of many runs of one run file: comparisons with rival algorithms and sweeps over keys."""
