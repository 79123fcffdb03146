"""What both sides of a federation agree on: the terms, what follows from them, and what a client allows."""
