"""Private mechanisms: a client's releases, and the certificate that makes its epsilon true."""
