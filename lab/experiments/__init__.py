"""The paper's experiments, a file each: its jobs, and the report on their outcomes."""
