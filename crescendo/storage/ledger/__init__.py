"""The client's ledger on disk: the spending of its records, and the outbox of its releases."""
