"""The authority of a federation: who gets a certificate, by hand or by request, and whose certificate is revoked."""
