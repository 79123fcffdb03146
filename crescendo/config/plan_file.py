"""A plan as the [privacy] and [schedule] of a run file: what is written is what `crescendo run` then holds the run to."""

import os
from pathlib import Path

from crescendo.errors import ConfigError
from crescendo.privacy.planning.plans import Plan

STEP = 1.0
"""The step sizes of a round add up to this at most, which suits the mean of clients with records of length about 1."""


def _plan_text(plan: Plan, stated: float) -> str:
    """The part of a run file that follows ``plan`` and states ``stated`` as its epsilon.

    Every size is per client and every number is written in full, so that the run's events are the plan's, bit for bit: Python
    writes numbers and pairs as TOML does.
    """
    sizes = ", ".join(str(size) if rounds == 1 else f"[{size}, {rounds}]" for size, rounds in plan.staircase)
    first, last = plan.sizes.first, plan.sizes.last
    return f"""\
# {plan.rounds:,} rounds of {first:,} to {last:,} out of a client's {plan.records:,} records, with sigma {plan.sigma:g}.
# That is epsilon {plan.epsilon:.4g} at delta {plan.delta:g} for each client.
# Add whose data it is, for example:
#   [data]
#   source = "a9a"
#   [clients]
#   count = 5
# `crescendo run` then confirms epsilon for every client or refuses. It does not depend on clip and steps, which are a
# start to tune; but every setting that is tried on the same records spends again.

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
    """A file for a plan. It must not be there yet, nor may its folder be missing: that is seen before time is spent on a plan."""

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
        """Write ``plan`` there, whole or not at all; a file that came meanwhile stays as it is."""
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
        except BaseException as error:  # half a plan would be taken for a plan
            self._path.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise self._refused(error) from None
            raise

    def _refused(self, error: OSError) -> ConfigError:
        reason = (error.strerror or "unknown reason").lower()
        return ConfigError(f"the plan cannot be written to {self._path}: {reason}; name another file with --write")
