"""How long rounds wait for clients."""
