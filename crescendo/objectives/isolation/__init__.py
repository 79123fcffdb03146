"""Isolation of a user's own code: one record leaves nothing behind that another could show."""
