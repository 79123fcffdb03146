"""What a client releases of its records, and the certificate that makes its epsilon true."""
