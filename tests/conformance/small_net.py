# mypy: allow-untyped-defs
"""A torch module as a user would write it, for federations that are served."""

from torch import nn


class SmallNet(nn.Sequential):
    def __init__(self, features, hidden=4):
        super().__init__(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, 3))
