"""The server's state on disk: an append-only journal, its snapshots, and the server that resumes from them."""
