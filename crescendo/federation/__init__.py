"""Terms of a federation, the objects derived from them, and a client's policy."""
