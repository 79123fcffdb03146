"""Wheels and sdists have all that they should and nothing else, and the wheels run where there is no checkout."""

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
    """Wheel and sdist of both packages, built by their own backend from a copy of what git has, without a network."""
    source, into = tmp_path_factory.mktemp("source") / "crescendo", tmp_path_factory.mktemp("dist")
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if files.returncode != 0:
        pytest.skip("this is no checkout: git does not know its files")
    for name in filter(None, files.stdout.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    made = {}
    for name, folder in (("", source), ("dp ", source / "dp")):
        for kind in ("wheel", "sdist"):
            done = subprocess.run(
                [sys.executable, "-c", BUILD, kind, into],
                cwd=folder,
                capture_output=True,
                text=True,
                env=_elsewhere(),
                timeout=LONGEST,
            )
            assert done.returncode == 0, done.stderr
            made[name + kind] = into / done.stdout.strip().splitlines()[-1]
    return made


@pytest.fixture(scope="module")
def installed(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an empty environment with both wheels, which sees the packages of this one but not this checkout."""
    home = tmp_path_factory.mktemp("empty") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True, timeout=LONGEST)
    packages = Path(sysconfig.get_path("purelib"))
    inside = home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-deps", "--no-index"]
    wheels = built["dp wheel"], built["wheel"]
    subprocess.run([*pip, "--target", inside, *wheels], check=True, env=_elsewhere(), timeout=LONGEST)
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


@pytest.mark.parametrize(("kind", "home"), [("wheel", "crescendo"), ("dp wheel", "dp/crescendo_dp")])
def test_a_wheel_has_every_file_of_its_package_and_no_other(built: dict[str, Path], kind: str, home: str) -> None:
    with zipfile.ZipFile(built[kind]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    tracked = subprocess.run(["git", "ls-files", home], cwd=ROOT, capture_output=True, text=True).stdout.split()
    assert names == {name.removeprefix("dp/") for name in tracked if (ROOT / name).is_file()}
    kinds = {".py", ".typed"} if kind == "dp wheel" else {".py", ".html", ".css", ".js", ".proto", ".pyi", ".typed"}
    assert {Path(name).suffix for name in names} >= kinds


@pytest.mark.parametrize(("kind", "home"), [("sdist", ""), ("dp sdist", "dp/")])
def test_an_sdist_has_every_file_of_its_folder(built: dict[str, Path], kind: str, home: str) -> None:
    """A packager runs the tests from it, and they read the pages, the examples, the laboratory, the Makefile, the workflow .."""
    with tarfile.open(built[kind]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    wanted = {name.removeprefix(home) for name in tracked if name.startswith(home) and (ROOT / name).is_file()}
    assert wanted - names == set()
    assert not [name for name in names if any(junk in name for junk in JUNK) or name.startswith(("runs/", "site/"))]


def test_the_toolkit_runs_alone(built: dict[str, Path], tmp_path: Path) -> None:
    """`crescendo_dp` in an environment that has numpy and scipy and no `crescendo`."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-deps", "--no-index"]
    home = tmp_path / "alone"
    subprocess.run([*pip, "--target", home, built["dp wheel"]], check=True, env=_elsewhere(), timeout=LONGEST)
    for name in ("numpy", "numpy.libs", "scipy", "scipy.libs"):
        if (there := Path(sysconfig.get_path("purelib")) / name).exists():
            (home / name).symlink_to(there)
    code = f"import sys; sys.path.insert(0, {str(home)!r}); from crescendo_dp.__main__ import main; "
    code += "print('crescendo' in sys.modules, end=' '); sys.exit(main(sys.argv[1:]))"
    words = ["plan", "--epsilon", "1", "--delta", "1e-5", "--records", "1000", "--gradients", "2000", "--rounds", "40"]
    shown = run(tmp_path, sys.executable, "-I", "-S", "-c", code, *words)
    assert shown.startswith("False 40 rounds")


def test_the_wheel_imports_from_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    found = run(tmp_path, installed / "python", "-c", "import crescendo; print(crescendo.__file__)").strip()
    assert Path(found).is_relative_to(installed.parent) and not Path(found).is_relative_to(ROOT)


def test_the_wheel_runs_a_new_project_and_writes_its_report(installed: Path, tmp_path: Path) -> None:
    assert "crescendo 0." in run(tmp_path, installed / "crescendo", "--version")
    run(tmp_path, installed / "crescendo", "new", "x")
    run(tmp_path, installed / "crescendo", "run", "x/run.toml", "--out", "runs/x")
    assert (tmp_path / "runs" / "x" / "report.html").stat().st_size > 10_000
    assert list((tmp_path / "runs").glob("plotly-*.min.js"))
