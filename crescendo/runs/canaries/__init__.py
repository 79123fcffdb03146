"""The audit of a run file by canaries: one run with them among the records."""
