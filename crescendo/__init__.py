"""Crescendo."""
