"""Audit of a mechanism in a Python file, named as ``FILE.py:NAME``.

NAME is a function ``(records, rng) -> release``, or a class that makes such an object; `crescendo_dp.audit` lists the attributes
that it may have.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from crescendo_dp.black_box.attack import BlackBoxReport, Claim, Progress
from crescendo_dp.black_box.audit import attacked, check, instance
from crescendo_dp.black_box.example_records import example_records
from crescendo_dp.black_box.neighbours import Neighbours
from crescendo_dp.errors import ConfigError
from crescendo_dp.python_file import PythonFile


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
    """Attack ``FILE.py:NAME``. Without ``runs`` make as many as ``seconds`` allow. The mechanism's own prints go to stderr."""
    check(claim, runs, seconds, option="--")
    if records is not None and shape is not None:
        raise ConfigError("--records are records, and --shape makes some up; give one of the two")
    with contextlib.redirect_stdout(sys.stderr), np.errstate(all="ignore"):
        mechanism = instance(PythonFile.read(kind).named(), kind)
        return attacked(
            mechanism,
            claim,
            example_records(getattr(mechanism, "records", None), records, shape),
            getattr(mechanism, "canaries", None),
            neighbours,
            name=kind.rpartition(":")[2],
            label=kind,
            runs=runs,
            seconds=seconds,
            seed=seed,
            progress=progress,
            clock=clock,
        )
