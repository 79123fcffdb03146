"""A schema bought from private records: differentially private counts, charged to the ledger of those records."""
