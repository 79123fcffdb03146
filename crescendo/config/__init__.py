"""The run file: its keys, reading and checking it, and its translation into terms and simulator arguments."""
