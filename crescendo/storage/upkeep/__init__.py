"""Upkeep of stored state: read-only checks, copies of files in use, and disk space."""
