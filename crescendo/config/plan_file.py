"""Plan file: a plan written as the [privacy] and [schedule] of a run file. `crescendo run` holds the run to them."""

import os
from pathlib import Path

from crescendo.errors import ConfigError
from crescendo_dp.planning.schedule import Plan

STEP = 1.0
"""The step sizes of a round add up to this at most, which suits the mean of clients with records of length about 1."""


def _plan_text(plan: Plan, stated: float) -> str:
    """Return the sections of a run file that follow ``plan`` and state ``stated`` as their epsilon.

    Sizes are per client and numbers have all their digits, so the run's events equal the plan's bit for bit. Python's ``repr``
    of numbers and pairs is valid TOML.
    """
    sizes = ", ".join(str(size) if rounds == 1 else f"[{size}, {rounds}]" for size, rounds in plan.staircase)
    first, last = plan.sizes.first, plan.sizes.last
    return f"""\
# {plan.rounds:,} rounds of {first:,} to {last:,} out of a client's {plan.records:,} records, with sigma {plan.sigma:g}.
# That is epsilon {plan.epsilon:.4g} at delta {plan.delta:g} for each client.
# Add the data and the clients, for example:
#   [data]
#   source = "a9a"
#   [clients]
#   count = 5
# `crescendo run` then confirms epsilon for every client, or refuses to run. Epsilon does not depend on clip and steps: these
# are values to start tuning from. But every setting tried on the same records spends epsilon again.

[privacy]
mechanism = "minibatch"
epsilon = {stated!r}
delta = {plan.delta!r}
sigma = {plan.sigma.to_json()!r}
clip = 1.0
records = {plan.records}

[schedule]
rounds = {plan.rounds}
sizes = {{kind = "list", values = [{sizes}], per_client = true}}
steps = {{kind = "constant", eta = {float(f"{STEP / plan.staircase[-1][0]:.1e}")!r}}}
"""


class PlanFile:
    """A file to be written for a plan. Refuse an existing file or a missing folder at once, before the plan is computed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._check()

    def _check(self) -> None:
        path = self._path
        if path.exists():
            raise ConfigError(f"{path} exists already; name another file with --write, or remove it")
        if not path.parent.is_dir():
            raise ConfigError(
                f"there is no folder {path.parent} to write {path.name} to; make it, or name another file"
            )

    def write(self, plan: Plan, stated: float) -> None:
        """Write ``plan``, whole or not at all; never overwrite a file made in the meantime."""
        text = _plan_text(plan, stated)
        try:
            file = self._path.open("x", encoding="utf-8")
        except FileExistsError:
            self._check()
            raise
        except OSError as error:
            raise self._refused(error) from None
        try:
            with file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except BaseException as error:  # a reader would take half a plan for a plan
            self._path.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise self._refused(error) from None
            raise

    def _refused(self, error: OSError) -> ConfigError:
        reason = (error.strerror or "unknown reason").lower()
        return ConfigError(f"the plan cannot be written to {self._path}: {reason}; name another file with --write")
