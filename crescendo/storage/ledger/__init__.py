"""The client's ledger on disk: what its records have spent, and the outbox of what was sent."""
