"""Mutation of the modules that make an epsilon true: bugs that nobody thought of, planted by rule; see `tests.audit.mutate`."""
