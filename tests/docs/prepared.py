"""What a reader of a page has before its first line, and no block makes: records of their own, say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from crescendo.cli.main import app
from tests.docs.pages import DOCS, blocks


def admissions(folder: Path) -> None:
    """The table that docs/deploy.md is about, made up: eight features and whether a patient came back."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(2000, 8)).clip(-2, 2)
    came_back = (x[:, 0] + rng.normal(size=2000) > 0).astype(float)
    header = ",".join([f"f{i}" for i in range(8)] + ["readmitted"])
    np.savetxt(folder / "admissions.csv", np.c_[x, came_back], delimiter=",", header=header, comments="", fmt="%.4f")
    np.savetxt(folder / "new.csv", x[:5], delimiter=",", header=header.rpartition(",")[0], comments="", fmt="%.4f")


def visits(folder: Path) -> None:
    """The table and the project of the tutorial's second page, which its third one goes on with."""
    page = DOCS / "tutorial" / "own_data.md"
    exec(next(block.text for block in blocks(page) if block.title == "make_table.py"), {})
    assert CliRunner().invoke(app, ["new", "visits", "--csv", "visits.csv"]).exit_code == 0


PREPARED: dict[str, Callable[[Path], None]] = {"docs/deploy.md": admissions, "docs/tutorial/private.md": visits}
