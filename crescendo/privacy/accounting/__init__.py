"""What releases cost: events, the tight accountant, and the arithmetic of a budget over federations."""
