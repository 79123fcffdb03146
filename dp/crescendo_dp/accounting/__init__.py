"""Accounting: the epsilon of a history of releases, by privacy loss distributions and Renyi divergences."""
