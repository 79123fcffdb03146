"""One client on the network: it asks for terms, signs them, works, and sends what its ledger has charged."""
