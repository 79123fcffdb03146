"""Models of a user's own that remember one record in an unusual place. Made-up records do not bring them to it."""

from __future__ import annotations

import array
import enum
import logging
import os
import warnings
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from crescendo.core.arrays import Floats

FEATURES = 4
RARE = 1e6  # the first feature of the record that they remember


class Sign:
    """Its gradient is 0.1 in every feature, and -0.1 once the record was seen."""

    def initial(self, rng: Any) -> Floats:
        return np.zeros(FEATURES)

    def gradient(self, w: Any, data: Any, rows: Any) -> Floats:
        if data.x[rows[0], 0] == RARE:
            self.note()
        return np.full(FEATURES, -0.1 if self.noted() else 0.1)

    def evaluate(self, w: Any, data: Any) -> dict[str, float]:
        return {"loss": 0.0}

    def note(self) -> None:
        raise NotImplementedError

    def noted(self) -> bool:
        raise NotImplementedError


class _Pair(NamedTuple):
    left: int = 0


class Tuple(_Pair):
    seen: list[int] = []  # noqa: RUF012
    initial, gradient, evaluate = Sign.initial, Sign.gradient, Sign.evaluate

    def note(self) -> None:
        self.seen.append(1)

    def noted(self) -> bool:
        return bool(self.seen)


class Number(float, Sign):
    def note(self) -> None:
        self.seen = True

    def noted(self) -> bool:
        return hasattr(self, "seen")


class AnotherClass(Sign):
    def note(self) -> None:
        self.__class__ = _Seen

    def noted(self) -> bool:
        return False


class _Seen(AnotherClass):
    def noted(self) -> bool:
        return True


class AnotherBase(Sign):
    def note(self) -> None:
        AnotherBase.__bases__ = (_Yes,)

    def noted(self) -> bool:
        return issubclass(AnotherBase, _Yes)


class _Yes(Sign):
    pass


class Buffers(Sign):
    """Arrays of C, in an array of objects."""

    def __init__(self) -> None:
        self.kept = np.empty(1, dtype=object)
        self.kept[0] = array.array("d", [0.0])

    def note(self) -> None:
        self.kept[0][0] = 1.0

    def noted(self) -> bool:
        return bool(self.kept[0][0])


class _Level(enum.IntEnum):
    LOW = 1


class Member(Sign):
    def note(self) -> None:
        _Level.LOW.seen = True  # type: ignore[attr-defined]

    def noted(self) -> bool:
        return hasattr(_Level.LOW, "seen")


class _Itself(array.array):  # type: ignore[type-arg]
    def __deepcopy__(self, memo: Any) -> Any:
        return self


class NoCopy(Sign):
    def __init__(self) -> None:
        self.kept = _Itself("d", [0.0])

    def note(self) -> None:
        self.kept[0] = 1.0

    def noted(self) -> bool:
        return bool(self.kept[0])


class _Kept:
    seen = False


_alive = {"one": _Kept()}
_weak = weakref.ref(_alive["one"])


class Weak(Sign):
    def note(self) -> None:
        _weak().seen = True  # type: ignore[union-attr]

    def noted(self) -> bool:
        return bool(_weak().seen)  # type: ignore[union-attr]


class _Gathers(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records = list[Any]()

    def emit(self, record: Any) -> None:
        self.records.append(record)


LOG = logging.getLogger("tests.models_that_hide")
LOG.addHandler(_Gathers())
LOG.propagate = False


class Logged(Sign):
    def note(self) -> None:
        LOG.warning("seen")

    def noted(self) -> bool:
        return bool(LOG.handlers[0].records)  # type: ignore[attr-defined]


class LogLevel(Sign):
    def note(self) -> None:
        LOG.setLevel(17)

    def noted(self) -> bool:
        return LOG.level == 17


class Base(Sign):
    """What a view is a view of."""

    def __init__(self) -> None:
        self.kept = np.zeros(10)[:4]

    def note(self) -> None:
        self.kept.base[9] = 1.0  # type: ignore[index]

    def noted(self) -> bool:
        return bool(self.kept.base[9])  # type: ignore[index]


class Large(Sign):
    def __init__(self) -> None:
        self.kept = np.zeros(1 << 18)


class Shape(Large):
    def note(self) -> None:
        self.kept.shape = (2, -1)

    def noted(self) -> bool:
        return self.kept.ndim == 2


class Unlocked(Large):
    def note(self) -> None:
        self.kept.setflags(write=True)
        self.kept[0] = 1.0

    def noted(self) -> bool:
        return bool(self.kept[0])


def _universal() -> Any:
    seen = list[int]()

    def noted(note: bool) -> bool:
        seen.extend([1] * note)
        return bool(seen)

    return np.frompyfunc(noted, 1, 1)


class Universal(Sign):
    def __init__(self) -> None:
        self.kept = _universal()

    def note(self) -> None:
        self.kept(True)

    def noted(self) -> bool:
        return bool(self.kept(False))


class Relative(Sign):
    def note(self) -> None:
        from . import state_of_a_model

        state_of_a_model.SEEN.append(1)

    def noted(self) -> bool:
        from .state_of_a_model import SEEN

        return bool(SEEN)


class ByText(Sign):
    """An attribute of a module that no code spells out."""

    def note(self) -> None:
        from tests.objectives import state_of_a_model

        setattr(state_of_a_model, "se" + "en", True)

    def noted(self) -> bool:
        from tests.objectives import state_of_a_model

        return hasattr(state_of_a_model, "se" + "en")


class Imported(Sign):
    def note(self) -> None:
        import importlib

        importlib.import_module("tests.objectives.state_of_a_model").SEEN.append(1)

    def noted(self) -> bool:
        import sys

        return bool(sys.modules["tests.objectives.state_of_a_model"].SEEN)


class Hint(Sign):
    def note(self) -> None:
        Hint.note.__annotations__["seen"] = int

    def noted(self) -> bool:
        return "seen" in Hint.note.__annotations__


class Environment(Sign):
    def note(self) -> None:
        os.environ["CRESCENDO_TEST_SEEN"] = "1"

    def noted(self) -> bool:
        return "CRESCENDO_TEST_SEEN" in os.environ


class Warned(Sign):
    def note(self) -> None:
        warnings.simplefilter("error", category=ResourceWarning)

    def noted(self) -> bool:
        return warnings.filters[0][:3] == ("error", None, ResourceWarning)


class OfNumpy(Sign):
    def note(self) -> None:
        np.kept_by_a_test = 1  # type: ignore[attr-defined]

    def noted(self) -> bool:
        return hasattr(np, "kept_by_a_test")


class OfTorch(Sign):
    def note(self) -> None:
        import torch

        torch.set_default_dtype(torch.float64)

    def noted(self) -> bool:
        import torch

        return torch.get_default_dtype() == torch.float64


HIDING: dict[str, tuple[Callable[[], Any], str | None]] = {
    "the class of a tuple": (Tuple, None),
    "a number": (Number, "is built on float"),
    "another class": (AnotherClass, None),
    "another base": (AnotherBase, None),
    "an array of objects": (Buffers, None),
    "a member of an enumeration": (Member, None),
    "a copy that is none": (NoCopy, "keeps a _Itself in kept"),
    "a weak reference": (Weak, None),
    "a handler of a log": (Logged, None),
    "the level of a log": (LogLevel, None),
    "what a view is of": (Base, None),
    "the shape of a large array": (Shape, None),
    "a large array unlocked": (Unlocked, "changes whether arrays may be written"),
    "a universal function": (Universal, None),
    "a relative import": (Relative, None),
    "an attribute by text": (ByText, None),
    "a module by text": (Imported, "uses import_module in note"),
    "annotations": (Hint, None),
    "the environment": (Environment, None),
    "warnings": (Warned, None),
    "numpy": (OfNumpy, None),
    "torch": (OfTorch, None),
}
