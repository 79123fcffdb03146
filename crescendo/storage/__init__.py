"""What outlives the process: the server's journal and the client's ledger."""
