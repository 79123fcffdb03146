"""A module that models import when they run, to keep what they have seen in it."""

SEEN: list[int] = []
