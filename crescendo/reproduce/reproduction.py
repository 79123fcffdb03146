"""`reproduce`: experiments in, a folder out with their findings, their figures and the page of results."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from crescendo.errors import ConfigError
from crescendo.reproduce.catalogue import EXPERIMENTS, chosen
from crescendo.reproduce.drawing import check_drawing, draw
from crescendo.reproduce.experiment import Effort
from crescendo.reproduce.results_page import page
from crescendo.reproduce.runner import Progress, cores, run_experiments
from crescendo.reproduce.stored_findings import StoredFindings
from crescendo.whole_files import whole_file

FOLDER, PAGE = "results", "results.md"


def reproduce(
    name: str, out: Path, effort: Effort, *, processes: int | None = None, progress: Progress | None = None
) -> list[StoredFindings]:
    """Run the experiment ``name``, or "all", and write OUT/results/NAME.json, its plots, and OUT/results.md.

    The page has every experiment whose findings lie in the folder, those of earlier runs too.
    """
    experiments = chosen(name)
    if processes is not None and processes < 1:
        raise ConfigError(f"--processes must be at least 1, got {processes}")
    check_drawing()
    folder, done = out / FOLDER, list[StoredFindings]()
    if folder.is_dir():
        stored_in(folder)  # what the page cannot be made of is refused before anything is run
    StoredFindings.check_room([one.name for one in experiments], folder, effort.quick)
    with _folder(folder):
        for experiment, findings, absent in run_experiments(experiments, effort, processes or cores(), progress):
            found = StoredFindings.of(experiment, effort, absent, findings)
            found.write(folder)
            for plot in findings.plots:
                draw(plot, folder)
            write_page(out)
            done.append(found)
    return done


@contextlib.contextmanager
def _folder(folder: Path) -> Iterator[None]:
    """Made before the runs, so that a place that cannot be written is refused at once; removed if nothing came into it."""
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        for place in made:
            with contextlib.suppress(OSError):  # there is something in it
                place.rmdir()


def write_page(out: Path) -> None:
    """Make the page anew from the findings that are stored."""
    path = out / PAGE
    with whole_file(path) as file:
        file.write(page(stored_in(out / FOLDER), EXPERIMENTS, FOLDER).encode())
    path.chmod(0o644)


def stored_in(folder: Path) -> Sequence[StoredFindings]:
    known = {one.name for one in EXPERIMENTS}
    return [StoredFindings.read(path) for path in sorted(folder.glob("*.json")) if path.stem in known]
