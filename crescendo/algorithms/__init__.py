"""Rival algorithms, one file each: a server and a client for the simulator, beside the core's own (`crescendo.core.sides`)."""
