"""Aggregator: a node of the tree between clients and server. It joins its parent, and serves its own clients as a server does."""
