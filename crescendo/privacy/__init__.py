"""Privacy of a run: mechanisms, their certificates, and the guarantee that a run states. `crescendo_dp` plans and accounts."""
