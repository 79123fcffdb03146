"""Planning: from a privacy budget to a schedule of rounds and their noise."""
