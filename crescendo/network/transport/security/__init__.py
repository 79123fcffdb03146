"""Authentication: TLS, mutual TLS, and tokens that each belong to one name.

Each party has its own folder, made by `crescendo certs` or by hand:

    ca.pem       the authority that this federation trusts, and no other
    cert.pem     this party's certificate, and key.pem its key (a client that shows a token needs neither)
    next-key.pem the key of a certificate that was asked for and has not come yet (`crescendo certs request`)
    revoked.pem  at the server: certificates that are no longer accepted, signed by the authority
    token        a client's secret (instead of a certificate)
    tokens.json  at the server: owner and SHA-256 of each token. With this file clients show tokens, otherwise certificates

A certificate names its owner's role and name in a URI, ``urn:crescendo:client:NAME``, and the uses that it allows, so a client's
certificate cannot stand in for the server's. Tokens are 256 random bits, so their plain SHA-256 gives nothing away; they are
compared in constant time. Secrets never appear in an error or a log.

A running process rereads changed files: a server for every new connection, a client when it connects again.
"""
