"""The server's state on disk: an append-only journal, snapshots beside it, and the server that resumes from them."""
