"""Prose that no test reads goes stale."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from crescendo.config.reference import reference
from crescendo.config.schema import Config
from crescendo.tables import right_of

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(DOCS.glob("*.md"))


def test_the_run_file_reference_is_what_the_models_say() -> None:
    assert (DOCS / "run_file.md").read_text() == reference(), "python -m crescendo.config.reference > docs/run_file.md"


@pytest.mark.parametrize("key", Config.every_key())
def test_every_key_of_a_run_file_is_documented(key: str) -> None:
    field = Config.every_key()[key]
    assert right_of(field) and field.description, f"{key} lacks words"
    assert f"| `{key}` |" in (DOCS / "run_file.md").read_text()


def test_the_picture_of_the_rooms_is_what_the_imports_say() -> None:
    made = subprocess.run(
        [sys.executable, "-c", "import rooms; print(rooms.drawn(), end='')"], cwd=DOCS, capture_output=True
    )
    assert (DOCS / "rooms.svg").read_bytes() == made.stdout, "python docs/rooms.py"


@pytest.mark.parametrize("page", ["paper_map.md", "architecture.md"])
def test_files_named_in_a_page_exist(page: str) -> None:
    named = re.findall(r"`((?:crescendo|tests|lab)/[\w/.]+)`", (DOCS / page).read_text())
    assert named
    for name in named:
        assert (ROOT / name).exists(), name


def test_files_named_for_contributors_exist() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("## Where does my change go?")[2]
    for name in re.findall(r"`([\w]+/[\w/]+(?:\.py)?)`", table):
        assert (ROOT / name).exists() or (ROOT / "crescendo" / name).exists(), name


def test_tests_named_in_the_departures_exist() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (DOCS / "departures.md").read_text())
    assert len(named) > 20
    for file, test in named:
        assert f"def {test}(" in (ROOT / file).read_text(), f"{file}::{test}"


def test_the_readme_says_what_a_report_needs_to_open() -> None:
    text = " ".join((ROOT / "README.md").read_text().split())
    assert "opens without a network as long as the plotting script that all runs share" in text
    assert "`runs/plotly-VERSION.min.js`" in text and "with `--out DIR` the script lies beside `DIR`" in text
    assert "`crescendo run --standalone` makes a single file" in text


def test_commands_in_the_documents_exist() -> None:
    from typer.testing import CliRunner

    from crescendo.cli.main import app

    for page in PAGES:
        for command in re.findall(r"^(?:\.venv/bin/)?crescendo ((?:data )?[a-z]+)", page.read_text(), re.M):
            found = CliRunner().invoke(app, [*command.split(), "--help"])
            assert found.exit_code == 0, f"{page.name}: crescendo {command}"


def loaded_by(code: str) -> set[str]:
    probe = f"import sys; {code}; print(' '.join(sys.modules))"
    found = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in found.stdout.split()}


@pytest.mark.slow
def test_core_imports_no_heavy_or_waiting_library() -> None:
    heavy = {
        "torch",
        "jax",
        "numba",
        "grpc",
        "asyncio",
        "socket",
        "scipy",
        "sklearn",
        "pydantic",
        "typer",
        "plotly",
        "pandas",
    }
    code = "import crescendo.core.server, crescendo.core.client, crescendo.core.terms, crescendo.schedules"
    assert loaded_by(code) & heavy == set()


@pytest.mark.slow
def test_importing_crescendo_loads_numpy_at_most() -> None:
    heavy = {
        "torch",
        "jax",
        "numba",
        "scipy",
        "sklearn",
        "pydantic",
        "typer",
        "rich",
        "plotly",
        "pandas",
        "dp_accounting",
    }
    assert loaded_by("import crescendo") & heavy == set()


@pytest.mark.slow
def test_the_command_line_answers_a_wrong_file_without_heavy_libraries() -> None:
    heavy = {"numba", "scipy", "sklearn", "plotly", "pandas", "dp_accounting"}
    assert loaded_by("from crescendo.cli.main import app; from crescendo.config.loading import read") & heavy == set()
