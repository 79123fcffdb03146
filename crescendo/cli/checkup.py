"""Checks of a machine before it is used: Python, packages, folders, disk, file limits, the port and the clock."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, requires, version
from pathlib import Path
from typing import Literal

PORT = 7077  # the port in the examples and docs
_LEAST_FREE = 2e9  # bytes of a disk: a server of a small model warns below .32 GB, one of ten million floats below 8
_LEAST_FILES = 1024
_EXTRAS = {
    "network": ("serve, join, status", "grpcio"),
    "torch": ("torch modules", "torch"),
    "jax": ("JAX functions", "jax"),
    "demo": ("the flights example", "pandas"),
    "data": ("crescendo data get", "pooch"),
    "parquet": ("tables in Parquet files", "pyarrow"),
    "plots": ("figures as PNG and SVG", "matplotlib"),
}
_SHOWN = (
    "numpy",
    "scipy",
    "numba",
    "dp-accounting",
    "grpcio",
    "torch",
    "jax",
)  # packages that a bug report should name


@dataclass(frozen=True)
class MachineCheck:
    """The result of one check: its state, a description and, unless the state is ok, a remedy."""

    name: str
    state: Literal["ok", "note", "bad"]
    says: str

    def to_json(self) -> dict[str, str]:
        return {"name": self.name, "state": self.state, "says": self.says}


def versions() -> str:
    """Return the line that `--version` prints: Crescendo, Python, the system and the main packages."""
    from crescendo.build import build_id

    found = [f"{name} {installed}" for name in _SHOWN if (installed := _installed(name)) is not None]
    system = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    return f"crescendo {version('crescendo-fl')} (build {build_id()}; {system}; {', '.join(found)})"


def checkup() -> Iterator[MachineCheck]:
    """Yield the result of every check, in the order in which a newcomer needs them."""
    yield _python()
    yield _packages()
    yield from _extras()
    yield from _folders()
    yield from _disks()
    yield _files()
    yield _port()
    yield _clock()


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _python() -> MachineCheck:
    return MachineCheck("Python", "ok", f"{platform.python_version()}, {os.cpu_count()} cores")


def _packages() -> MachineCheck:
    """Check that every requirement is installed in a version it allows, as `pip check` does."""
    from packaging.requirements import Requirement

    wrong = []
    for line in requires("crescendo-fl") or ():
        wanted = Requirement(line)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        found = _installed(wanted.name)
        if found is None or not wanted.specifier.contains(found, prereleases=True):
            wrong.append(f"{wanted.name}{wanted.specifier} is needed and {found or 'none'} is installed")
    if wrong:
        return MachineCheck("packages", "bad", f"{'; '.join(wrong)}: install crescendo-fl again")
    return MachineCheck("packages", "ok", versions())


def _extras() -> Iterator[MachineCheck]:
    for extra, (use, package) in _EXTRAS.items():
        found = _installed(package)
        if found is None:
            yield MachineCheck(
                f"extra {extra}", "note", f"not installed; for {use}: pip install 'crescendo-fl[{extra}]'"
            )
        else:
            yield MachineCheck(f"extra {extra}", "ok", f"{package} {found}: {use}")


def _folders() -> Iterator[MachineCheck]:
    from crescendo.data import cache

    folder = cache.folder()
    if _writable(folder):
        yield MachineCheck("cache", "ok", f"{folder}")
    else:
        yield MachineCheck(
            "cache", "note", f"{folder} cannot be written, so every run reads its files again; set CRESCENDO_CACHE"
        )
    here = Path.cwd()
    if not _writable(here):
        yield MachineCheck(
            "this folder", "bad", f"{here} cannot be written, so no run can be kept; go to another, or use --out"
        )
    named = os.environ.get("CRESCENDO_DATA")
    if named and not Path(named).expanduser().is_dir():
        yield MachineCheck(
            "data folder", "bad", f"CRESCENDO_DATA names {named}, which is not a folder; correct or unset it"
        )
    elif named:
        yield MachineCheck("data folder", "ok", named)


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _disks() -> Iterator[MachineCheck]:
    from crescendo.data import cache

    seen = set()
    for folder in (Path.cwd(), cache.folder(), Path(tempfile.gettempdir())):
        try:
            device, free = folder.stat().st_dev, shutil.disk_usage(folder)
        except OSError:
            continue
        if device in seen:
            continue
        seen.add(device)
        says = f"{free.free / 1e9:,.1f} GB of {free.total / 1e9:,.0f} GB are free at {folder}"
        low = free.free < _LEAST_FREE
        yield MachineCheck(
            "disk",
            "note" if low else "ok",
            f"{says}; that is little, and a server takes no updates below serve.disk_reserve" if low else says,
        )


def _files() -> MachineCheck:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = "no limit" if hard == resource.RLIM_INFINITY else f"{hard:,}"
    if hard != resource.RLIM_INFINITY and hard < _LEAST_FILES:
        says = f"at most {most} may be open, too few for a server of many clients; raise `ulimit -Hn` or systemd's LimitNOFILE"
        return MachineCheck("open files", "note", says)
    more = "" if soft == hard else f", which a server raises by itself up to {most}"
    return MachineCheck("open files", "ok", (most if soft == resource.RLIM_INFINITY else f"{soft:,}") + more)


def _port() -> MachineCheck:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", PORT))
        except OSError:
            return MachineCheck("port", "note", f"{PORT} is in use on this machine; give `serve --listen` another")
    return MachineCheck("port", "ok", f"{PORT} is free on this machine")


def _clock() -> MachineCheck:
    """Check that the clock is not behind the installed files: to a clock that is behind, new certificates are not valid yet."""
    newest = Path(str(distribution("crescendo-fl").locate_file(""))).stat().st_mtime
    if time.time() < newest - 86_400:
        return MachineCheck(
            "clock", "bad", "the clock is behind the day on which packages were installed; set it, since TLS needs it"
        )
    return MachineCheck("clock", "ok", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()))
