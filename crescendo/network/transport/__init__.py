"""What both ends of a connection share: channels, back-off, TLS and tokens, rate limits, stream writers, shutdown."""
