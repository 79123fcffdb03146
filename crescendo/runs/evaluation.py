"""Meter: keeps the models of a run for a moment and scores several in one pass over the records."""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.data import Records, cache
from crescendo.objectives import Optimum, mean_gradient
from crescendo.runs.prepare import Prepared
from crescendo.schedules import lower_bound
from crescendo.simulator.simulation import Moment

Row = dict[str, Any]

STACK_NUMBERS = 8_000_000  # the most numbers in the models kept at once, and in their margins over all records
LONGEST_WAIT = 2.0  # the most seconds until a model is scored, so that a run can be watched


class Meter:
    """Scores every ``evaluate.every``-th model and the last: loss on the training data, other scores on the test part."""

    def __init__(self, prepared: Prepared, measured: Callable[[list[Row]], None]) -> None:
        self._prepared, self._measured = prepared, measured
        self._every = prepared.config.evaluate.every
        self._weights = prepared.row_weights()
        records = max(len(prepared.dataset.train), prepared.objective.size)
        self._batch = max(1, min(64, STACK_NUMBERS // records))
        self._best = _best(prepared, self._weights) if prepared.config.evaluate.optimum else None
        self._gradient = prepared.config.evaluate.gradient or self._best is not None
        self._kept: list[Moment] = []
        self._last: Moment | None = None
        self._due = time.monotonic() + LONGEST_WAIT
        self.rows: list[Row] = []

    def observe(self, moment: Moment) -> None:
        """Take a model, to be scored soon together with others. A score does not depend on the others in its batch."""
        self._last = moment
        if moment.k % self._every == 0:
            self._kept.append(moment)
        if len(self._kept) >= self._batch or time.monotonic() > self._due:
            self._flush()

    def finish(self) -> list[Row]:
        if self._last is not None and self._last.k % self._every:
            self._kept.append(self._last)
        self._flush()
        _average(self.rows)
        test = self._prepared.dataset.test
        if self._prepared.config.evaluate.auc and test is not None and self._last is not None:
            scores = self._scores(self._last.model[None, :], test, "auc")
            self.rows[-1]["auc"] = _finite(scores["auc"][0]) if "auc" in scores else None
        return self.rows

    def _flush(self) -> None:
        if not self._kept:
            return
        models = np.stack([moment.model for moment in self._kept])
        measured = self._measure(models)
        for j, moment in enumerate(self._kept):
            row: Row = {
                "k": moment.k,
                "gradients": moment.gradients,
                "seconds": moment.seconds,
                "broadcasts": moment.broadcasts,
                "bytes_up": moment.bytes_up,
                "bytes_down": moment.bytes_down,
            }
            row.update({name: _finite(values[j]) for name, values in measured.items()})
            if self._best is not None:
                row.update(self._against(self._best, moment, row["loss"]))
            if self._gradient:
                row["gradient_norm"] = self._gradient_norm(moment.model)
            self.rows.append(row)
        self._measured(self.rows[-len(self._kept) :])
        self._kept.clear()
        self._due = time.monotonic() + LONGEST_WAIT

    def _measure(self, models: Floats) -> dict[str, Floats]:
        data = self._prepared.dataset
        found = {"loss": self._scores(models, data.train, "loss", weights=self._weights)["loss"]}
        names = self._prepared.objective.traits.scores
        tested = self._scores(models, data.test, *names) if data.test is not None else {}
        tested.pop("loss", None)
        return found | {"accuracy": np.full(len(models), np.nan)} | tested

    def _against(self, best: Optimum, moment: Moment, loss: float | None) -> Row:
        """Return the distances from w*, |w - w*|^2 and F - F*, and the bounds of the strongly convex theory on the first."""
        prepared = self._prepared
        row: Row = {
            "distance": _finite(np.sum((moment.model - best.model) ** 2)),
            "excess_loss": None if loss is None else loss - best.loss,
        }
        if prepared.convexity is not None:
            row["lower_bound"] = lower_bound(moment.gradients, best.G, prepared.convexity) if moment.gradients else None
            row.update(self._promised(best, moment.gradients))
        return row

    def _gradient_norm(self, model: Floats) -> float | None:
        """Return |grad F| over all training records."""
        prepared = self._prepared
        return _finite(np.linalg.norm(mean_gradient(prepared.objective, model, prepared.dataset.train, self._weights)))

    def _promised(self, best: Optimum, t: int) -> Row:
        """Return the theory's bound on E|w - w*|^2 after t gradients, if the theory covers this run."""
        found = self._prepared.certificate
        if found.theorem is not None and found.theorem.bounds and found.within_theorem:
            return {"upper_bound": found.theorem.upper_bound(t, best.G) if t else None}
        if found.constant is not None and found.constant.holds:
            first = float(np.sum((self._prepared.agreement.initial() - best.model) ** 2))
            return {"upper_bound": found.constant.bound(t, first, best.G)}
        return {}

    def _scores(self, models: Floats, data: Records, *metrics: str, weights: Floats | None = None) -> dict[str, Floats]:
        return self._prepared.objective.evaluate(models, data, weights, metrics=metrics)


def _average(rows: list[Row]) -> None:
    """Add to each row the averages that the theory of convex and of non-convex problems bounds (Paper [app-nonconvex]).

    ``averaged_excess_loss`` is the mean of F - F* over the models from half of the row's gradients up to the row;
    ``averaged_squared_gradient`` the mean of |grad F|^2 over all models so far.
    """
    for j, row in enumerate(rows):
        if "excess_loss" in row:
            late = [other["excess_loss"] for other in rows[: j + 1] if 2 * other["gradients"] >= row["gradients"]]
            row["averaged_excess_loss"] = None if None in late else float(np.mean(late))
        if "gradient_norm" in row:
            squares = [other["gradient_norm"] for other in rows[: j + 1]]
            row["averaged_squared_gradient"] = None if None in squares else float(np.mean(np.square(squares)))


def _best(prepared: Prepared, weights: Floats | None) -> Optimum:
    return Optimum.of(prepared.objective, prepared.dataset.train, weights, folder=cache.folder())


def _finite(value: Any) -> float | None:
    """Return the number, or None if it is not finite: JSON has no NaN and no infinity."""
    number = float(value)
    return number if math.isfinite(number) else None
