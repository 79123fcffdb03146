"""Simulator of a federation on a virtual clock: clients of different speeds, message delays, one trace per seed."""
