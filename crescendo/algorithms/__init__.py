"""Rival algorithms, one file each, with a server and a client for the simulator (`crescendo.core.sides`)."""
