"""Messages as bytes: the .proto files, the checks of a peer's messages, and vectors in parts."""
