"""Which records have which ledger, for each user: so that no data set is given a second budget, or an older copy of its own."""
