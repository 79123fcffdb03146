"""The federation's server: it acknowledges an update only after it is on disk."""
