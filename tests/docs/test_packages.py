"""The wheel and the sdist have all that they should and nothing else, and the wheel runs where there is no checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.docs.running import LONGEST

pytestmark = pytest.mark.slow
JUNK = ("__pycache__", ".pyc", ".pytest_cache", ".hypothesis", ".venv")
BUILD = "from setuptools import build_meta as b; import sys; print(getattr(b, 'build_' + sys.argv[1])(sys.argv[2]))"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both, built by the project's own backend from a copy of what git has, without a network."""
    source, into = tmp_path_factory.mktemp("source") / "crescendo", tmp_path_factory.mktemp("dist")
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if files.returncode != 0:
        pytest.skip("this is no checkout: git does not know its files")
    for name in filter(None, files.stdout.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    made = {}
    for kind in ("wheel", "sdist"):
        done = subprocess.run(
            [sys.executable, "-c", BUILD, kind, into],
            cwd=source,
            capture_output=True,
            text=True,
            env=_elsewhere(),
            timeout=LONGEST,
        )
        assert done.returncode == 0, done.stderr
        made[kind] = into / done.stdout.strip().splitlines()[-1]
    return made


@pytest.fixture(scope="module")
def installed(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an empty environment with the wheel in it, which sees the packages of this one but not this checkout."""
    home = tmp_path_factory.mktemp("empty") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True, timeout=LONGEST)
    packages = Path(sysconfig.get_path("purelib"))
    inside = home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", inside, built["wheel"]], check=True, env=_elsewhere(), timeout=LONGEST)
    (inside / "others.pth").write_text(f"{packages}\n")  # its .pth files, this checkout's among them, are not read
    script = home / "bin" / "crescendo"
    shutil.copy(inside / "bin" / "crescendo", script)
    script.write_text(f"#!{home}/bin/python\n" + script.read_text().partition("\n")[2])
    script.chmod(0o755)
    return home / "bin"


def _elsewhere() -> dict[str, str]:
    return {
        key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV", "CRESCENDO_DATA")
    }


def run(folder: Path, *words: object) -> str:
    call = [str(word) for word in words]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, env=_elsewhere(), timeout=LONGEST)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_has_every_file_of_the_package_and_no_other(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built["wheel"]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    tracked = subprocess.run(["git", "ls-files", "crescendo"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    assert names == {name for name in tracked if (ROOT / name).is_file()}
    assert {Path(name).suffix for name in names} >= {".py", ".html", ".css", ".js", ".proto", ".pyi", ".typed"}


def test_the_sdist_has_every_file_of_the_repository(built: dict[str, Path]) -> None:
    """A packager runs the tests from it, and they read the pages, the examples, the laboratory, the Makefile, the workflow .."""
    with tarfile.open(built["sdist"]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    assert {name for name in tracked if (ROOT / name).is_file()} - names == set()
    assert not [name for name in names if any(junk in name for junk in JUNK) or name.startswith(("runs/", "site/"))]


def test_the_wheel_imports_from_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    found = run(tmp_path, installed / "python", "-c", "import crescendo; print(crescendo.__file__)").strip()
    assert Path(found).is_relative_to(installed.parent) and not Path(found).is_relative_to(ROOT)


def test_the_wheel_runs_a_new_project_and_writes_its_report(installed: Path, tmp_path: Path) -> None:
    assert "crescendo 0." in run(tmp_path, installed / "crescendo", "--version")
    run(tmp_path, installed / "crescendo", "new", "x")
    run(tmp_path, installed / "crescendo", "run", "x/run.toml", "--out", "runs/x")
    assert (tmp_path / "runs" / "x" / "report.html").stat().st_size > 10_000
    assert list((tmp_path / "runs").glob("plotly-*.min.js"))
