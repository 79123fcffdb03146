"""Seeds that failed once, and what they showed. They run for ever; a seed stands for its schedule as it is drawn today."""

KEPT: dict[int, str] = {}
