"""A federation over gRPC: `server` serves it, `client` takes part in it.

What can be decided without a socket is decided without one: `member` is a client's side, `hall` the server's. Importing
`server` or `client` loads grpc.
"""
