"""Messages as bytes: the .proto files, what is checked of a peer's message, and vectors in frames."""
