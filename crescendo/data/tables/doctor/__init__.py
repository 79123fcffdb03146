"""Data doctor: finds what a table of a user's own hides, and names the word that mends it. It looks at every record.

So it belongs to runs without privacy, and to drafts: what it finds in private records counts as looked at.
"""
