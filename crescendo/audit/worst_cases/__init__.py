"""Data, terms, wires and files at the edges of what is accepted."""
