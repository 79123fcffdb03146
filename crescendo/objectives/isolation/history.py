"""Search for memory: drive a model's code through a long history of made-up records, without restoring it in between.

The gradient of a record must be the same at any time. `pristine` makes memory harmless while a round is computed;
looking for it refuses a model that, isolated, would learn a different thing than its author meant. A history has some
two thousand records in changing order, at several models, and now and then scores all of them. Each record is in a
new object, which soon lies where an earlier one lay. A memory that begins later is not found, and is harmless.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from crescendo.core.arrays import Floats, Ints
from crescendo.data.records import Records
from crescendo.errors import CrescendoError
from crescendo.objectives.base import Slots
from crescendo_dp.own_code import own_code_failed

if TYPE_CHECKING:
    from crescendo.objectives.own import OwnModel

_Says: TypeAlias = "Callable[[OwnModel, Floats, Records], Floats]"

RECORDS = 2048  # shown to a model at least, unless that takes too long
SECONDS = 1.0  # limit of the search
_DISTINCT = 64  # made-up records
_MODELS = 4
_TOGETHER = 16  # records of a round, and of a call of code that is shown many


def remembers(
    goal: OwnModel,
    start: Floats,
    sample: Records,
    by_record: bool = True,
    records: int = RECORDS,
    seconds: float = SECONDS,
) -> str | None:
    """Return the sign of memory in a model, as the rest of a sentence, or None.

    The code runs without its isolation, and is restored afterwards. ``by_record`` compares gradients, otherwise
    rounds of steps.
    """
    goal.isolate()
    made_up, says = _made_up(sample), _gradient if by_record else _round
    groups = _groups(1 if by_record and not goal.traits.clips else _TOGETHER)
    models = _models(start)
    due = [_tried(says, goal, models[k % _MODELS], made_up.take(rows)) for k, rows in enumerate(groups)]
    end, seen = time.monotonic() + seconds, 0
    with goal.exposed() as world:
        before = world.in_libraries()
        for turn, k in enumerate(_turns(len(groups))):
            found = _tried(says, goal, models[k % _MODELS], made_up.take(groups[k]))
            if due[k] is None and found is not None:
                return "fails where what it keeps cannot change (arrays of more than a megabyte are locked)"
            if not _same(found, due[k]):
                return f"says something else of a record once it has seen others (here {seen:,})"
            seen += len(groups[k])
            if turn % len(groups) == len(groups) - 1 and seen < records:
                _score(goal, start, made_up)
            if seen >= records or time.monotonic() > end:
                break
        for library, held in world.in_libraries().items():
            if any(before[library].get(name) is not one for name, one in held.items()):
                return f"keeps something in {library}, a library"
    return None


def _made_up(sample: Records) -> Records:
    """Return more records like a sample's; half of them have the scale of unscaled data."""
    rng = np.random.Generator(np.random.Philox(1))
    x = rng.random((_DISTINCT, sample.features))
    x[1::2] *= 10 ** rng.uniform(-1, 1, (len(x[1::2]), 1))
    return Records(x, np.resize(np.asarray(sample.y, dtype=np.float64), _DISTINCT), sample.shape)


def _models(start: Floats) -> list[Floats]:
    """Return the first model and some near it, since releases move it."""
    rng = np.random.Generator(np.random.Philox(2))
    return [start + (k > 0) * 0.1 * rng.standard_normal(len(start)) for k in range(_MODELS)]


def _groups(together: int) -> list[Ints]:
    """Return the groups of records shown together."""
    order = np.random.Generator(np.random.Philox(3)).permutation(_DISTINCT)
    return [order[low : low + together] for low in range(0, _DISTINCT, together)]


def _turns(groups: int) -> Iterator[int]:
    """Yield all groups in changing order, repeatedly."""
    rng = np.random.Generator(np.random.Philox(4))
    while True:
        yield from rng.permutation(groups).tolist()


def _tried(says: _Says, goal: OwnModel, start: Floats, records: Records) -> Floats | None:
    """Return the result; None if the code fails, which counts as a gradient of 0 or a round without movement."""
    try:
        with np.errstate():
            return says(goal, start.copy(), records)
    except CrescendoError:
        return None


def _gradient(goal: OwnModel, start: Floats, records: Records) -> Floats:
    return goal.gradient(start, records, np.arange(len(records)))


def _round(goal: OwnModel, start: Floats, records: Records) -> Floats:
    """Return the displacement by a round of one small step per record, on a new stepper."""
    count = len(records)
    slots = Slots(np.arange(count), np.full(count, 0.01), np.arange(1, count + 1))
    try:
        stepper = goal.stepper(records)
        stepper.load(start.copy())
        stepper.advance(slots, 0, count)
        return start - np.asarray(stepper.read(), dtype=np.float64)
    except CrescendoError:
        raise
    except (Exception, SystemExit) as error:
        raise own_code_failed(f"a step of {goal.name} failed with", error) from error


def _score(goal: OwnModel, start: Floats, records: Records) -> None:
    with suppress(CrescendoError):
        goal.evaluate(start, records)


def _same(found: Floats | None, due: Floats | None) -> bool:
    if found is None or due is None:
        return found is due
    scale = float(np.abs(due).max(initial=0.0))
    return np.allclose(found, due, rtol=1e-9, atol=1e-12 * scale, equal_nan=True)
