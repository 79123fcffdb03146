"""A federation over gRPC: `server` serves it, `client` takes part in it.

What can be decided without a socket is decided without one: `participant` is a client's side, `service` the server's. Importing
`server` or `client` loads grpc.
"""
