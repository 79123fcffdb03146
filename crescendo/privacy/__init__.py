"""Privacy of a run: mechanisms, their certificates and the run's guarantee. `crescendo_dp` plans and accounts."""
