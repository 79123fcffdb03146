"""One file per experiment: its jobs, and what its report makes of what they measured."""
