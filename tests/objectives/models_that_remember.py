"""Models of a user's own that keep what they have seen, each in another place. All are the squared loss but for their memory."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from crescendo.core.arrays import Floats

FEATURES = 4
SEEN: dict[str, Any] = {"sum": 0.0, "count": 0}
NOISE = np.random.default_rng(0)
TOTAL = np.zeros(FEATURES)
COUNT = 0


class Squares:
    """Remembers nothing."""

    def initial(self, rng: Any) -> Floats:
        return np.zeros(FEATURES)

    def gradient(self, w: Any, data: Any, rows: Any) -> Floats:
        return np.asarray(sum((self.of_one(w, data.x[r], data.y[r], data) for r in rows), np.zeros(FEATURES)))

    def of_one(self, w: Any, x: Any, y: Any, data: Any) -> Floats:
        return np.asarray(x * (x @ w - y))

    def evaluate(self, w: Any, data: Any) -> dict[str, float]:
        return {"loss": float(np.mean((data.x @ w - data.y) ** 2) / 2)}


class RunningMean(Squares):
    """Takes the mean of what it saw off every record, once it has seen enough."""

    def __init__(self, after: int = 50) -> None:
        self.after, self.total, self.count = after, np.zeros(FEATURES), 0

    def of_one(self, w: Any, x: Any, y: Any, data: Any) -> Floats:
        self.total += x
        self.count += 1
        return super().of_one(w, x - (self.total / self.count if self.count > self.after else 0.0), y, data)


class HardMining(Squares):
    """Learns from the hardest records alone, once it knows which these are."""

    def __init__(self, after: int = 100) -> None:
        self.after, self.losses = after, list[float]()

    def of_one(self, w: Any, x: Any, y: Any, data: Any) -> Floats:
        self.losses.append(float((x @ w - y) ** 2))
        easy = len(self.losses) > self.after and self.losses[-1] < np.quantile(self.losses, 0.7)
        return np.zeros(FEATURES) if easy else super().of_one(w, x, y, data)


class WeightsOfClasses(Squares):
    """Weighs classes by how many of the scored records they have."""

    def __init__(self) -> None:
        self.weights = dict[float, float]()

    def of_one(self, w: Any, x: Any, y: Any, data: Any) -> Floats:
        return super().of_one(w, x, y, data) * self.weights.get(float(y), 1.0)

    def evaluate(self, w: Any, data: Any) -> dict[str, float]:
        for label in (0.0, 1.0):
            self.weights[label] = len(data.y) / (1.0 + 2.0 * float((data.y == label).sum()))
        return super().evaluate(w, data)


class IdCache(Squares):
    """Standardises each data set once: a data set that lies where an earlier one lay has the other's numbers."""

    def __init__(self) -> None:
        self.known = dict[int, Any]()

    def gradient(self, w: Any, data: Any, rows: Any) -> Floats:
        x = self.known.setdefault(id(data), data.x * 2.0)
        return np.asarray(x[rows].T @ (x[rows] @ w - data.y[rows]))


@functools.cache
def first_of_kind(y: float) -> list[Any]:
    return []


class Memoised(Squares):
    def of_one(self, w: Any, x: Any, y: Any, data: Any) -> Floats:
        kept = first_of_kind(float(y))
        kept.append(x)
        return super().of_one(w, np.mean(kept, axis=0), y, data)


class OfTheClass(Squares):
    calls = 0

    def of_one(self, w: Any, x: Any, y: Any, data: Any) -> Floats:
        OfTheClass.calls += 1
        return super().of_one(w, x * np.cos(OfTheClass.calls), y, data)


class OfTheModule(Squares):
    def of_one(self, w: Any, x: Any, y: Any, data: Any) -> Floats:
        SEEN["sum"] = SEEN["sum"] + x
        SEEN["count"] += 1
        return super().of_one(w, SEEN["sum"] / SEEN["count"], y, data)


class OfAGlobal(Squares):
    def of_one(self, w: Any, x: Any, y: Any, data: Any) -> Floats:
        global COUNT
        COUNT += 1
        TOTAL[:] += x
        return super().of_one(w, TOTAL / COUNT, y, data)


class OfADefault(Squares):
    def of_one(self, w: Any, x: Any, y: Any, data: Any, seen: list[Any] = []) -> Floats:  # noqa: B006
        seen.append(x)
        return super().of_one(w, np.mean(seen, axis=0), y, data)


def of_a_closure() -> Squares:
    seen, count = list[Any](), 0

    class Closure(Squares):
        def of_one(self, w: Any, x: Any, y: Any, data: Any) -> Floats:
            nonlocal count
            seen.append(x)
            count += 1
            return super().of_one(w, sum(seen) / count, y, data)

    return Closure()


class Numbered(Squares):
    def __init__(self) -> None:
        self.numbers = itertools.count(1)

    def of_one(self, w: Any, x: Any, y: Any, data: Any) -> Floats:
        return super().of_one(w, x * next(self.numbers), y, data)


class Slotted(Squares):
    __slots__ = ("last",)

    def of_one(self, w: Any, x: Any, y: Any, data: Any) -> Floats:
        self.last = getattr(self, "last", 0.0) + x
        return super().of_one(w, self.last, y, data)


class DrawsOfNumpy(Squares):
    def of_one(self, w: Any, x: Any, y: Any, data: Any) -> Floats:
        return super().of_one(w, x * np.random.rand(), y, data)  # noqa: NPY002


class DrawsOfPython(Squares):
    def of_one(self, w: Any, x: Any, y: Any, data: Any) -> Floats:
        return super().of_one(w, x * random.random(), y, data)


class DrawsOfItsOwn(Squares):
    def of_one(self, w: Any, x: Any, y: Any, data: Any) -> Floats:
        return super().of_one(w, x * NOISE.random(), y, data)


class OnAFunction(Squares):
    def of_one(self, w: Any, x: Any, y: Any, data: Any) -> Floats:
        scaled.last = getattr(scaled, "last", 0.0) + x  # type: ignore[attr-defined]
        return super().of_one(w, scaled(x), y, data)


def scaled(x: Any) -> Any:
    return scaled.last  # type: ignore[attr-defined]


class Decorator:
    """Keeps what it was given in itself, and has the function that it stands for as functools would note it."""

    def __init__(self, function: Any) -> None:
        functools.update_wrapper(self, function)
        self.total: Any = 0.0

    def __call__(self, x: Any) -> Any:
        self.total = self.total + x
        return self.__wrapped__(self.total)  # type: ignore[attr-defined]


@Decorator
def halved(x: Any) -> Any:
    return x / 2


class Decorated(Squares):
    def of_one(self, w: Any, x: Any, y: Any, data: Any) -> Floats:
        return super().of_one(w, halved(x), y, data)


MODELS: dict[str, Callable[[], Squares]] = {
    "a running mean": RunningMean,
    "hard mining": HardMining,
    "weights in evaluate": WeightsOfClasses,
    "a cache by id": IdCache,
    "lru_cache": Memoised,
    "a class attribute": OfTheClass,
    "a dictionary of the module": OfTheModule,
    "a global": OfAGlobal,
    "a mutable default": OfADefault,
    "a closure": of_a_closure,
    "an iterator": Numbered,
    "a slot": Slotted,
    "numpy.random": DrawsOfNumpy,
    "random": DrawsOfPython,
    "a generator of the module": DrawsOfItsOwn,
    "an attribute of a function": OnAFunction,
    "a decorator that is an object": Decorated,
}
