"""Who is who on the network: TLS, mutual TLS, and tokens that belong to one name.

Each party has a folder of its own, made by `crescendo certs` or by hand:

    ca.pem       the authority that this federation trusts, and no other
    cert.pem     this party's certificate, and key.pem its key (a client that shows a token needs neither)
    next-key.pem the key of a certificate that was asked for and has not come yet (`crescendo certs request`)
    revoked.pem  at the server: certificates that are no longer accepted, signed by the authority
    token        a client's secret (instead of a certificate)
    tokens.json  at the server: who has which token, as SHA-256. If it is there clients show tokens, else certificates

A certificate says what its owner is and how it is called in a URI, ``urn:crescendo:client:NAME``, and what it may be used for:
a client's can not stand in for the server. Tokens are 256 random bits, so their plain SHA-256 gives nothing away; they are
compared in constant time. No secret is ever part of an error or a log.

A running process takes up files that have changed: a server for every new connection, a client when it connects again.
"""
