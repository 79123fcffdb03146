"""Loaded once by the process that the others are forked from: what takes long to load or to compile."""

from __future__ import annotations

import numpy as np

import crescendo.network.client.join
import crescendo.network.server.serve  # noqa: F401
from crescendo.data import as_records
from crescendo.objectives import Logistic
from crescendo.objectives.base import Slots
from crescendo_dp.accounting.epsilon import account
from crescendo_dp.events import PoissonGaussian

_GOAL = Logistic(2)
_DATA = as_records(np.ones((2, 2)), [1.0, -1.0])
_STEPPER = _GOAL.stepper(_DATA)
_ROWS = np.array([0, 1], dtype=np.int64)
for _slots in (
    Slots(_ROWS, np.full(2, 0.1)),
    Slots(_ROWS, np.full(2, 0.1), ends=np.array([1, 2]), clip=1.0),
):
    _STEPPER.load(np.zeros(3))
    _STEPPER.advance(_slots, 0, 2)
_GOAL.gradient(np.zeros(3), _DATA, _ROWS, 1.0)
account([PoissonGaussian(0.1, 2.0)], 1e-6)  # which imports more at its first call than all the rest
