"""One client on the network: it asks for terms, signs them, works, and sends the updates that its ledger has charged."""
