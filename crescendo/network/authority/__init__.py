"""The authority of a federation: issues certificates, directly or on request, and revokes them."""
