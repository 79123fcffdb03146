"""Mutants that nothing catches, and why nothing should: by key, what makes the change no bug."""

EXPLAINED: dict[str, str] = {}
