"""Runs experiments, stores their findings and figures in a folder, and writes the page of results."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from crescendo.errors import ConfigError
from crescendo.whole_files import whole_file
from lab.catalogue import EXPERIMENTS, chosen
from lab.pipeline.drawing import check_drawing, draw
from lab.pipeline.experiment import Effort
from lab.pipeline.page import results_page
from lab.pipeline.runner import Progress, cores, run_experiments
from lab.pipeline.stored_findings import StoredFindings

FOLDER, PAGE = "results", "results.md"


def reproduce(
    name: str,
    out: Path,
    effort: Effort,
    *,
    page: Path | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
) -> list[StoredFindings]:
    """Run the experiment ``name``, or "all", and write OUT/results/NAME.json, its plots, and the page, by default OUT/results.md.

    The page also shows earlier experiments whose findings lie in the folder.
    """
    experiments = chosen(name)
    if processes is not None and processes < 1:
        raise ConfigError(f"--processes must be at least 1, got {processes}")
    check_drawing()
    folder, done = out / FOLDER, list[StoredFindings]()
    if folder.is_dir():
        stored_in(folder)  # refuse unreadable findings before anything runs
    StoredFindings.check_room([one.name for one in experiments], folder, effort.quick)
    with _folder(folder):
        for experiment, findings, absent in run_experiments(experiments, effort, processes or cores(), progress):
            found = StoredFindings.of(experiment, effort, absent, findings)
            found.write(folder)
            for plot in findings.plots:
                draw(plot, folder)
            write_page(folder, page or out / PAGE)
            done.append(found)
    return done


@contextlib.contextmanager
def _folder(folder: Path) -> Iterator[None]:
    """Make the folder before the runs, so that an unwritable place is refused at once, and remove it if it stays empty."""
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        for place in made:
            with contextlib.suppress(OSError):  # the folder is not empty
                place.rmdir()


def write_page(folder: Path, page: Path) -> None:
    """Write the page from the findings stored in ``folder``, with links to the figures there."""
    way = Path(os.path.relpath(folder, page.parent)).as_posix()
    with whole_file(page) as file:
        file.write(results_page(stored_in(folder), EXPERIMENTS, way).encode())
    page.chmod(0o644)


def stored_in(folder: Path) -> Sequence[StoredFindings]:
    """Return the findings of every known experiment in the folder."""
    known = {one.name for one in EXPERIMENTS}
    return [StoredFindings.read(path) for path in sorted(folder.glob("*.json")) if path.stem in known]
