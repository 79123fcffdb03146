"""A user's mechanism: its releases are checked, and every failure becomes one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crescendo_dp.arrays import Array, Bools, Floats
from crescendo_dp.black_box.neighbours import Pair
from crescendo_dp.errors import ConfigError, CrescendoError, OwnCodeError
from crescendo_dp.own_code import last_line, user_line

_MOST_NUMBERS = 10_000_000  # in one release


@dataclass
class CallableMechanism:
    """``call(records, rng)`` returns a release: an array, a number, or a list of arrays, of one shape in every run.

    ``many(records, rng, runs)``, where there is one, returns so many releases at once, a row for each.
    """

    name: str
    call: Callable[[Array, np.random.Generator], Any]
    many: Callable[[Array, np.random.Generator, int], Any] | None = None
    shape: tuple[int, ...] | None = field(default=None, init=False)

    def run(self, pair: Pair, coins: Bools, rng: np.random.Generator) -> Floats:
        """Return one release per coin, in order: of ``pair.with_it`` where the coin is true. Each call gets a fresh copy."""
        if self.many is not None:
            return self._at_once(pair, coins, rng)
        sets, call, rows = (pair.without, pair.with_it), self.call, np.empty((0, 0))
        with self._words(pair):
            for i, coin in enumerate(coins.tolist()):
                row = self._flat(call(sets[coin].copy(), rng), pair)
                if not i:
                    rows = np.empty((len(coins), row.size))
                rows[i] = row
        return self._finite(rows, pair)

    def _at_once(self, pair: Pair, coins: Bools, rng: np.random.Generator) -> Floats:
        assert self.many is not None
        rows = np.empty((0, 0))
        for side, records in ((True, pair.with_it), (False, pair.without)):
            count = int(np.count_nonzero(coins == side))
            if not count:
                continue
            with self._words(pair):
                found = np.asarray(self.many(records.copy(), rng, count), dtype=np.float64)
            if found.ndim == 0 or len(found) != count:
                raise ConfigError(
                    f"{self.name}.many returned shape {found.shape} for {count:,} runs; return a row for each run"
                )
            self._check_shape(found.shape[1:], pair)
            rows = rows if rows.size else np.empty((len(coins), found[0].size))
            rows[coins == side] = found.reshape(count, -1)
        return self._finite(rows, pair)

    def _flat(self, release: Any, pair: Pair) -> Floats:
        if type(release) is not np.ndarray or release.dtype != np.float64:
            release = self._array(release)
        if release.shape != self.shape:
            self._check_shape(release.shape, pair)
        return release.ravel()  # type: ignore[no-any-return]

    def _array(self, release: Any) -> Floats:
        try:
            if release is None:  # numpy takes it for nan
                raise TypeError
            if isinstance(release, list | tuple) and release:  # the arrays of a model, each of a shape of its own
                return np.concatenate([np.asarray(part, dtype=np.float64).ravel() for part in release])
            return np.asarray(release, dtype=np.float64)
        except (TypeError, ValueError):
            kind = type(release).__name__
            raise ConfigError(
                f"{self.name} returned a {kind} that is not made of numbers; return an array, a number or a list of arrays"
            ) from None

    def _check_shape(self, shape: tuple[int, ...], pair: Pair) -> None:
        size = int(np.prod(shape, dtype=float))
        if self.shape is None and 0 < size <= _MOST_NUMBERS:
            self.shape = shape
        elif self.shape is None:
            raise ConfigError(f"{self.name} returned {size:,} numbers; a release has between 1 and {_MOST_NUMBERS:,}")
        if shape != self.shape:
            raise ConfigError(
                f"{self.name} returned shape {self.shape} and then {shape}, on {pair.says}; the shape of a release is seen like "
                f"its numbers: pad it, or use --neighbours replace if the number of records is public"
            )

    def _finite(self, rows: Floats, pair: Pair) -> Floats:
        if not np.isfinite(rows).all():
            raise ConfigError(
                f"{self.name} returned numbers that are not finite, on {pair.says}; bound what it computes, or state canaries "
                f"that can occur"
            )
        return rows

    @contextmanager
    def _words(self, pair: Pair) -> Iterator[None]:
        try:
            yield
        except CrescendoError:
            raise
        except (Exception, SystemExit) as error:
            line = user_line(error)
            on = f"on {pair.says}, shape {pair.with_it.shape}{f'; {line}' if line else ''}"
            raise OwnCodeError(
                f"{self.name} failed with {last_line(error)} ({on}); a mechanism must take any number of records"
            ) from error
