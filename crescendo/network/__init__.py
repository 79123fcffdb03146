"""A federation over gRPC.

`protocol` turns messages into bytes and back. `transport` holds the parts of a connection that both sides use: channels, retry,
TLS, rate limits. `authority` makes, signs and revokes keys. `server` serves a federation, `client` takes part in it, and an
`aggregator` stands between some clients and the server.
`client.participant` and `server.service` make the decisions and use no sockets. Importing `server`, `client` or `aggregator`
loads grpc.
"""
