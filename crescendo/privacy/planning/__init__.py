"""From a budget to sizes, rounds and noise: the planner, calibration, and the guarantee of a run."""
