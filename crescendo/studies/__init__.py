"""Many runs of one run file, side by side: comparisons with rival algorithms and sweeps over keys."""
