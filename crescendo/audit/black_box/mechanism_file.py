"""The audit of a mechanism in a file of one's own: ``crescendo audit FILE.py:NAME``.

NAME is a function ``(records, rng) -> release``, or a class that makes such an object. It may say, as attributes: ``records`` (an
array, a row for each), ``canaries`` (records that are added to them, in place of ours), ``neighbours`` ("add" or "replace") and
``many(records, rng, runs)``, which returns so many releases at once.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from crescendo.audit.black_box.black_box import BlackBoxReport, Claim, Progress, attack
from crescendo.audit.black_box.callable_mechanism import CallableMechanism
from crescendo.audit.black_box.neighbours import Neighbours, Pair, pairs
from crescendo.core.arrays import Array
from crescendo.errors import ConfigError, CrescendoError, DataError
from crescendo.objectives.model_file import ModelFile

_SHAPE = (20, 5)  # of the records that are made up
_MOST_NUMBERS = 10**8
LEAST_RUNS, MOST_RUNS = 1_000, 10**8
MOST_TIMED_RUNS = 4_000_000  # that a default audit makes, if the mechanism is fast
_WARM = 20  # calls before the clock is read, and then calls that are timed


def attack_file(
    kind: str,
    claim: Claim,
    *,
    records: Path | None = None,
    shape: str | None = None,
    neighbours: Neighbours | None = None,
    runs: int | None = None,
    seconds: float = 20.0,
    seed: int = 0,
    progress: Progress | None = None,
    clock: Callable[[], float] | None = None,
) -> BlackBoxReport:
    """Attack ``FILE.py:NAME``; without ``runs``, with as many as ``seconds`` allow. What it prints goes to stderr."""
    _check(claim, runs, seconds)
    if records is not None and shape is not None:
        raise ConfigError("--records are records, and --shape makes some up; give one of the two")
    with contextlib.redirect_stdout(sys.stderr), np.errstate(all="ignore"):  # a mechanism's own, too
        found = _made(ModelFile.read(kind, asked="the mechanism").named(), kind)
        data = _records(found, records, shape)
        claim = _with_neighbours(claim, neighbours or getattr(found, "neighbours", "add"))
        chosen = pairs(data, claim.neighbours, _canaries(found, data))
        mechanism = CallableMechanism(kind.rpartition(":")[2], found, getattr(found, "many", None))
        count = runs if runs is not None else _affordable(mechanism, chosen[0], seconds, clock or _spent())
        return attack(kind, mechanism.run, chosen, claim, runs=count, seed=seed, progress=progress)


def _check(claim: Claim, runs: int | None, seconds: float) -> None:
    rules = (
        (0 <= claim.epsilon < float("inf"), f"--epsilon is a finite number, 0 or more, not {claim.epsilon:g}"),
        (0 <= claim.delta < 1, f"--delta is 0 or more and below 1, not {claim.delta:g}"),
        (
            not claim.gaussian or claim.delta != 0,
            "--gaussian needs a --delta above 0: Gaussian noise gives no epsilon without one",
        ),
        (0.5 <= claim.confidence < 1, f"--confidence lies between 0.5 and 1, not {claim.confidence:g}"),
        (
            runs is None or LEAST_RUNS <= runs <= MOST_RUNS,
            f"--runs of a mechanism lies between {LEAST_RUNS:,} and {MOST_RUNS:,}, not {runs or 0:,}",
        ),
        (0 < seconds <= 1e6, f"--seconds is a number above 0, at most a million, not {seconds:g}"),
    )
    for holds, says in rules:
        if not holds:
            raise ConfigError(says)


def _with_neighbours(claim: Claim, neighbours: Any) -> Claim:
    if neighbours not in ("add", "replace"):
        raise ConfigError(f'neighbours is "add" or "replace", not {neighbours!r}')
    return Claim(claim.epsilon, claim.delta, claim.confidence, neighbours, claim.gaussian, claim.floats)


def _made(found: Any, kind: str) -> Any:
    """The mechanism itself: a class is made first."""
    if inspect.isclass(found):
        try:
            found = found()
        except CrescendoError:
            raise
        except (Exception, SystemExit) as error:
            says = " ".join(f"{type(error).__name__}: {error}".split())
            raise ConfigError(f"{kind} could not be made without arguments: {says}") from error
    if not callable(found):
        raise ConfigError(
            f"{kind} is a {type(found).__name__} and cannot be called; name a function (records, rng) -> release"
        )
    return found


def _spent() -> Callable[[], float]:
    """Seconds of work since now: of this process, so that a busy machine does not weaken the attack, or of a mostly idle wait."""
    busy, began = time.process_time(), time.perf_counter()
    return lambda: max(time.process_time() - busy, (time.perf_counter() - began) / 4)


def _affordable(mechanism: CallableMechanism, pair: Pair, seconds: float, clock: Callable[[], float]) -> int:
    """Runs that fit into the time. They are fixed before the first of them, so that what is seen has no say in them."""
    rng, coins = np.random.Generator(np.random.PCG64(0)), np.arange(_WARM) % 2 == 0
    mechanism.run(pair, coins, rng)
    calls, began = 0, clock()
    while calls < 50 * _WARM and (not calls or clock() - began < min(1.0, seconds / 10)):
        mechanism.run(pair, coins, rng)
        calls += _WARM
    each = max((clock() - began) / calls, 1e-9)
    return int(min(max(seconds / each, LEAST_RUNS), MOST_TIMED_RUNS))


# -- records ----------------------------------------------------------------------------------------------------------


def _records(found: Any, file: Path | None, shape: str | None) -> Array:
    if file is not None:
        data, where = _read(file), str(file)
    elif shape is not None or getattr(found, "records", None) is None:
        return _made_up(_shape(shape) if shape is not None else _SHAPE)
    else:
        data, where = _array(found.records, "records of the mechanism"), "the mechanism's records"
    if data.ndim == 0 or not data.size:
        raise DataError(f"{where}: there are none; an array with a row for each record is needed")
    return data


def _made_up(shape: tuple[int, ...]) -> Array:
    """Not about 0, so that their sum points somewhere."""
    return np.random.Generator(np.random.Philox(0)).standard_normal(shape) + 0.5


def _shape(text: str) -> tuple[int, ...]:
    try:
        shape = tuple(int(part) for part in text.split(","))
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1 or np.prod(shape, dtype=float) > _MOST_NUMBERS:
        raise ConfigError(f"--shape is a number of records and the shape of each, like 20,5, not {text!r}")
    return shape


def _canaries(found: Any, records: Array) -> list[Array] | None:
    own = getattr(found, "canaries", None)
    if own is None:
        return None
    canaries = _array(own, "canaries of the mechanism")
    if canaries.ndim != records.ndim or canaries.shape[1:] != records.shape[1:] or not len(canaries):
        raise DataError(
            f"canaries have shape {canaries.shape} where records have {records.shape}; give a row for each canary"
        )
    return list(canaries.astype(records.dtype))


def _array(value: Any, what: str) -> Array:
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
            raise ValueError
    except (TypeError, ValueError):
        raise DataError(f"the {what} are not an array of finite numbers") from None
    return array.astype(np.int64) if array.dtype.kind == "b" else array


def _read(path: Path) -> Array:
    """An .npy or .npz file, or a table of numbers with or without a first line of names."""
    try:
        if path.suffix == ".npy":
            return _array(np.load(path, allow_pickle=False), f"records of {path}")
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return _array(_of_npz(dict(arrays), path), f"records of {path}")
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        table = [line.replace(",", " ").split() for line in lines]
        if table and any(not _is_number(word) for word in table[0]):
            table = table[1:]
        return _array([[float(word) for word in row] for row in table], f"records of {path}")
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; name an .npz, .npy or .csv file with the records") from None
    except DataError:
        raise
    except Exception as error:  # numpy raises what it likes for files that are something else
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise DataError(f"{path} is not a table of numbers, nor an .npz or .npy file of them") from None


def _of_npz(arrays: dict[str, Array], path: Path) -> Array:
    if "records" in arrays:
        return arrays["records"]
    if "x" in arrays:
        x = arrays["x"]
        return np.column_stack([x.reshape(len(x), -1), arrays["y"]]) if "y" in arrays else x
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    raise DataError(f"{path} has {', '.join(arrays)}; name the array of records records, or x with labels y")


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
