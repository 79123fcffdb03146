"""Meaning of an epsilon: odds, attacks, mu of Gaussian DP and rho of zCDP."""
