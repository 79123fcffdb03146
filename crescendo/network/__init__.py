"""A federation over gRPC.

`protocol` turns messages into bytes and back; `transport` has what both sides need of a connection: channels, retry, TLS, rate
limits. `authority` makes, signs and revokes keys. `server` serves a federation, `client` takes part in it, and an `aggregator`
stands between some clients and the server.
What can be decided without a socket is decided without one: in `client.participant` and in `server.service`. Importing `server`,
`client` or `aggregator` loads grpc.
"""
