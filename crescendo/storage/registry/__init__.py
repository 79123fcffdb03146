"""Which records have which ledger, for each user, so that no data set gets a second budget or an old copy of its ledger."""
