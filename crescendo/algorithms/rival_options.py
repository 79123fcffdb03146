"""Options of an algorithm: declared like the parameters of a schedule, with the range that a search may try."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from crescendo.schedules.parameters import POSITIVE, WHOLE, Declared


@dataclass(frozen=True)
class Search:
    """The values that tuning tries, from ``low`` to ``high``: in equal ratios, or in equal distances.

    >>> Search(0.01, 100).at(0.5), Search(0.0, 2.0, ratios=False).at(0.25), Search(1, 20, whole=True).at(0.5)
    (1.0, 0.5, 4)
    """

    low: float
    high: float
    ratios: bool = True
    whole: bool = False

    def at(self, part: float) -> float:
        """The value that lies ``part`` of the way from low to high."""
        if self.ratios:
            value = math.exp(math.log(self.low) * (1 - part) + math.log(self.high) * part)
        else:
            value = self.low * (1 - part) + self.high * part
        return round(value) if self.whole else float(f"{value:.6g}")


STEP_SCALE = Search(1 / 32, 32)


@dataclass(frozen=True)
class AlgorithmOptions(Declared):
    """Options that every algorithm has. A class below adds its own; one with a `Search` may be tuned.

    Few are: trials are the same number for all, so every option that is searched beside the step size leaves it fewer. Searched
    are those that the algorithm's own paper tunes and whose best value differs from problem to problem.
    """

    step_scale: Annotated[float, POSITIVE, STEP_SCALE, "what the step sizes of the run file are multiplied by"] = 1.0


@dataclass(frozen=True)
class RivalOptions(AlgorithmOptions):
    """And those that every rival has."""

    local_steps: Annotated[
        int, WHOLE, "local steps of a client in a round; 0: as few as make no more rounds than the run file has"
    ] = 0


def searched(options: type[AlgorithmOptions]) -> dict[str, Search]:
    """The options that may be tuned, with what to try.

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
