"""Ledger: the arithmetic of a privacy budget that several releases share."""
