"""Registry of each user's ledgers, so that no data set gets a second budget or an old copy of its ledger."""
