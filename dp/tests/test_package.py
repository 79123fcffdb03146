"""The package needs numpy and scipy alone, loads them on first use, and has a docstring for each public name."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import crescendo_dp

ROOT = Path(crescendo_dp.__file__).parent
ALLOWED = {"crescendo_dp", "numpy", "scipy"}


def imported() -> Iterator[tuple[str, str]]:
    """Every file with each module that it imports, inside functions and under TYPE_CHECKING too."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0 and node.module is not None, f"{path}: imports are written in full"
                names = [node.module]
            yield from ((path.relative_to(ROOT).as_posix(), name) for name in names)


def test_nothing_is_imported_but_numpy_and_scipy() -> None:
    found = {(path, name) for path, name in imported() if name.partition(".")[0] not in sys.stdlib_module_names}
    assert {(path, name) for path, name in found if name.partition(".")[0] not in ALLOWED} == set()
    assert {name.partition(".")[0] for _, name in found} == ALLOWED


def test_no_folder_imports_one_that_imports_it() -> None:
    uses: dict[str, set[str]] = {}
    for path, name in imported():
        if name.startswith("crescendo_dp.") and not path.startswith("__"):
            here, there = path.partition("/")[0].removesuffix(".py"), name.split(".")[1]
            uses.setdefault(here, set()).update({there} - {here})
    while leaves := {one for one in uses if not uses[one] & uses.keys()}:
        uses = {one: below for one, below in uses.items() if one not in leaves}
    assert uses == {}


def test_no_file_repeats_its_folder() -> None:
    assert [path for path in ROOT.rglob("*.py") if path.stem == path.parent.name] == []


@pytest.mark.slow
def test_importing_it_loads_neither_numpy_nor_typing() -> None:
    code = "import sys, crescendo_dp; print(sorted({'numpy', 'scipy', 'typing', 'dataclasses'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, cwd=ROOT.parent)
    assert found.stdout.strip() == "[]", found.stderr


def test_every_public_name_is_there_and_is_documented() -> None:
    for name in crescendo_dp.__all__:
        assert getattr(crescendo_dp, name).__doc__, name
    assert set(crescendo_dp.__all__) <= set(dir(crescendo_dp))
    with pytest.raises(AttributeError):
        crescendo_dp.nosuch  # noqa: B018


def test_its_version_is_that_of_its_distribution() -> None:
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["project"]
    assert project["version"] == crescendo_dp.__version__
    assert [one.partition(">")[0] for one in project["dependencies"]] == ["numpy", "scipy"]
