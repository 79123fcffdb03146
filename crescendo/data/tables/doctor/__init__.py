"""Data doctor: finds hidden faults of a user's table, and names the schema word that mends each. It looks at every record.

So it belongs to runs without privacy and to drafts: its findings in private records count as looked at.
"""
