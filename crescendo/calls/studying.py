"""`crescendo.compare` and `crescendo.sweep`: studies on records in memory or a run file, with the keywords of `simulate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack, overload

from crescendo.calls.asked_run import AskedRun, Data, Rows, RunFile
from crescendo.calls.keywords import PATHS, RunKeys, plain, spelled_out
from crescendo.calls.watching import CallWatch, watched
from crescendo.config.schema import Config
from crescendo.data import Dataset
from crescendo.errors import UsageError
from crescendo.studies import comparing, grid, sweeping
from crescendo.studies.comparing import Comparison
from crescendo.studies.points import InMemory
from crescendo.studies.study_events import Listener, StudyEvent, unheard
from crescendo.studies.sweeping import Sweep


@overload
def compare(
    config: RunFile | Dataset,
    /,
    rivals: Sequence[str],
    *,
    data: Data = None,
    objective: Any = None,
    seeds: int = 5,
    tune: int = 0,
    target: float | None = None,
    equal: str | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    overrides: Sequence[str] = (),
    out: Path | str | None = None,
    standalone: bool = False,
    tell: Listener = unheard,
    progress: bool | None = None,
    **keys: Unpack[RunKeys],
) -> Comparison: ...


@overload
def compare(
    x: Rows,
    y: Any = None,
    /,
    rivals: Sequence[str] | None = None,
    *,
    objective: Any = None,
    name: str = "arrays",
    seeds: int = 5,
    tune: int = 0,
    target: float | None = None,
    equal: str | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    overrides: Sequence[str] = (),
    out: Path | str | None = None,
    standalone: bool = False,
    tell: Listener = unheard,
    progress: bool | None = None,
    **keys: Unpack[RunKeys],
) -> Comparison: ...


@spelled_out  # type: ignore[misc]  # by position the list arrives as y; `_second` handles that
def compare(
    x: Any,
    y: Any = None,
    /,
    rivals: Any = None,
    *,
    data: Data = None,
    objective: Any = None,
    name: str = "arrays",
    seeds: int = 5,
    tune: int = 0,
    target: float | None = None,
    equal: str | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    overrides: Sequence[str] = (),
    out: Path | str | None = None,
    standalone: bool = False,
    tell: Listener = unheard,
    progress: bool | None = None,
    **keys: Unpack[RunKeys],
) -> Comparison:
    """Run our algorithm and each of ``rivals`` once for every seed, and compare them.

    ``compare(x, y, rivals=["fedavg"], clients=5)`` takes records and keywords as `crescendo.simulate` does,
    ``compare("run.toml", ["fedavg"])`` a run file, a dict of its tables, a `Config` or a data set. Every run has the same records
    and the same test part; everything random depends on the seed.

    ``tune`` is the number of tuning trials for every algorithm, on a part of the training records. ``target`` is a score to
    reach: an accuracy or, if numbers are predicted, an R². ``equal`` is the quantity that a private comparison keeps equal
    ("epsilon" or "noise"), and ``options`` fixes options by algorithm. With ``out``, the folder gets a file for every finished
    run, then ``comparison.csv`` and ``comparison.html``; the same call resumes an interrupted comparison. ``tell`` receives an
    event for every run, and ``progress`` is as for `crescendo.simulate`.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> found = compare(x, x[:, 0] > x[:, 1], rivals=["fedavg"], clients=2, gradients=400, seeds=2)
    >>> [one.name for one in found.contestants], found.ours.mean("accuracy").mean > 0.9
    (['crescendo', 'fedavg'], True)
    """
    y, rivals = _second(x, y, rivals, "rivals")
    asked = AskedRun.of("compare", x, y, data, objective, overrides, name, keys)
    with watched(progress) as watch:
        return comparing.compare(
            asked.config,
            rivals,
            seeds=plain(seeds),
            tune=plain(tune),
            target=plain(target),
            equal=equal,
            options=options,
            out=out,
            standalone=standalone,
            tell=_both(tell, watch),
            memory=InMemory(asked.data, asked.objective),
        )


@overload
def sweep(
    config: RunFile | Dataset,
    /,
    over: Sequence[str],
    *,
    data: Data = None,
    objective: Any = None,
    overrides: Sequence[str] = (),
    out: Path | str | None = None,
    standalone: bool = False,
    tell: Listener = unheard,
    progress: bool | None = None,
    **keys: Unpack[RunKeys],
) -> Sweep: ...


@overload
def sweep(
    x: Rows,
    y: Any = None,
    /,
    over: Sequence[str] | None = None,
    *,
    objective: Any = None,
    name: str = "arrays",
    overrides: Sequence[str] = (),
    out: Path | str | None = None,
    standalone: bool = False,
    tell: Listener = unheard,
    progress: bool | None = None,
    **keys: Unpack[RunKeys],
) -> Sweep: ...


@spelled_out  # type: ignore[misc]  # as above
def sweep(
    x: Any,
    y: Any = None,
    /,
    over: Any = None,
    *,
    data: Data = None,
    objective: Any = None,
    name: str = "arrays",
    overrides: Sequence[str] = (),
    out: Path | str | None = None,
    standalone: bool = False,
    tell: Listener = unheard,
    progress: bool | None = None,
    **keys: Unpack[RunKeys],
) -> Sweep:
    """Run once for every combination of the values in ``over``, for example ``["clients.count=2,5", "run.seed=0..4"]``.

    ``sweep(x, y, over=[..], clients=5)`` takes records and keywords as `crescendo.simulate` does; all runs then have the same
    records and the same test part. ``sweep("run.toml", [..])`` takes a run file, a dict of its tables or a `Config`, and each run
    reads the records that it names.

    With ``out``, the folder gets a file for every finished point, then ``sweep.csv`` and ``sweep.html``. The same call on the
    same folder resumes an interrupted sweep.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> sweep(x, x[:, 0] > x[:, 1], over=["clients.count=2,4"], gradients=400).count("done")
    2
    """
    y, over = _second(x, y, over, "over")
    _check_keys(over)
    with watched(progress) as watch:
        told: dict[str, Any] = {"out": out, "standalone": standalone, "tell": _both(tell, watch)}
        if _is_run_file(x) and y is None and data is None and objective is None and not keys:
            return sweeping.sweep(
                x, over, overrides=overrides, **told
            )  # the file may be complete only with the values of a point
        grid.check_apart(grid.axes_of(over), overrides)
        asked = AskedRun.of("sweep", x, y, data, objective, overrides, name, keys)
        return sweeping.sweep(asked.config, over, **told, memory=InMemory(asked.data, asked.objective))


def _check_keys(over: Any) -> None:
    """Refuse ``over`` if it uses a keyword instead of the run file's key."""
    for one in over if isinstance(over, list | tuple) else ():
        name, _, values = str(one).partition("=")
        if (key := PATHS.get(name.strip())) is not None and "." in key:
            raise UsageError(
                f'over has keys of the run file, and {name.strip()} is called {key} there; write "{key}={values:.60}"'
            )


def _both(tell: Listener, watch: CallWatch | None) -> Listener:
    """Return a listener that passes events on to the watch as well."""
    if watch is None:
        return tell

    def told(event: StudyEvent) -> None:
        watch.studied(event)
        tell(event)

    return told


def _is_run_file(x: Any) -> bool:
    return isinstance(x, Config | Path | str | Mapping)


def _second(x: Any, y: Any, listed: Any, word: str) -> tuple[Any, Any]:
    """Return the labels and the list called ``word``, which comes second if a run file or a data set has the labels."""
    if y is None or not (_is_run_file(x) or isinstance(x, Dataset)):
        return y, listed
    if listed is not None:
        raise UsageError(
            f"a run file or a data set has its labels; the second argument is then {word}, which is there twice"
        )
    return None, y
