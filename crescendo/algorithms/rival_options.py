"""Options of an algorithm: declared like a schedule's parameters, with the range for tuning."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from crescendo.schedules.parameters import POSITIVE, WHOLE, Declared


@dataclass(frozen=True)
class Search:
    """The range that tuning searches, from ``low`` to ``high``, in equal ratios or in equal distances.

    >>> Search(0.01, 100).at(0.5), Search(0.0, 2.0, ratios=False).at(0.25), Search(1, 20, whole=True).at(0.5)
    (1.0, 0.5, 4)
    """

    low: float
    high: float
    ratios: bool = True
    whole: bool = False

    def at(self, part: float) -> float:
        """Return the value ``part`` of the way from low to high."""
        if self.ratios:
            value = math.exp(math.log(self.low) * (1 - part) + math.log(self.high) * part)
        else:
            value = self.low * (1 - part) + self.high * part
        return round(value) if self.whole else float(f"{value:.6g}")


STEP_SCALE = Search(1 / 32, 32)


@dataclass(frozen=True)
class AlgorithmOptions(Declared):
    """The options of every algorithm. A subclass adds its own; an option with a `Search` may be tuned.

    Few options are tuned: the number of trials is equal for all algorithms, so each further option thins the search
    of the step size. Tuned are those that the algorithm's own paper tunes and whose best value depends on the
    problem.
    """

    step_scale: Annotated[float, POSITIVE, STEP_SCALE, "factor on the step sizes of the run file"] = 1.0


@dataclass(frozen=True)
class RivalOptions(AlgorithmOptions):
    """The options of every rival."""

    local_steps: Annotated[
        int, WHOLE, "local steps of a client in a round; 0: the fewest that need no more rounds than the run file has"
    ] = 0


def searched(options: type[AlgorithmOptions]) -> dict[str, Search]:
    """Return the tunable options with their search ranges.

    >>> searched(RivalOptions)
    {'step_scale': Search(low=0.03125, high=32, ratios=True, whole=False)}
    """
    found: dict[str, Search] = {}
    for name, hint in get_type_hints(options, include_extras=True).items():
        notes: tuple[Any, ...] = get_args(hint) if get_origin(hint) is Annotated else ()
        tried = next((note for note in notes if isinstance(note, Search)), None)
        if tried is not None:
            found[name] = tried
    return found
