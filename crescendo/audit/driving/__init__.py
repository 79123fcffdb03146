"""Drivers that lead real workers through whole runs, and compute the releases that they should send."""
