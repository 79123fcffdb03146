"""Privacy that is true and tight: what was released (`events`), what it costs (`accountant`), what to release (`planner`).

The paper's theorems stand beside them by name (`theorems`); its errors are kept
with the experiment that repeats its examples, in `lab/experiments/as_printed.py`.
"""

from crescendo.privacy.accounting.accountant import Spent, account
from crescendo.privacy.accounting.events import PoissonGaussian, tally
from crescendo.privacy.planning.planner import plan
from crescendo.privacy.planning.plans import Plan

__all__ = ["Plan", "PoissonGaussian", "Spent", "account", "plan", "tally"]
