"""Durable state: the server's journal, the client's ledger, and their upkeep."""
