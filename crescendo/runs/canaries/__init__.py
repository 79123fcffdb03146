"""Canary audit of a run file: one run with canaries among the records."""
