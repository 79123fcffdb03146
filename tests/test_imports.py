"""Imports point inward: an allowlist per room, no cycle between packages, one name for one thing, folders that one look takes in.

Every import counts: at the top of a module, inside a function, under ``TYPE_CHECKING``, by name in the lazy table of `crescendo`.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import crescendo

ROOT = Path(crescendo.__file__).parent

DOMAIN = ("errors", "views", "core", "schedules", "data", "objectives", "privacy")
DRIVEN = (*DOMAIN, "logs", "system", "whole_files", "worker")
SERVED = (*DRIVEN, "federation", "storage")
BELOW = (*SERVED, "tables", "simulator", "algorithms", "network", "audit")

ALLOWED: dict[str, tuple[str, ...]] = {
    "errors": (),
    "interrupts": (),
    "system": (),
    "logs": ("errors",),
    "tables": ("errors",),
    "build": (),
    "whole_files": ("system",),
    "views": ("errors",),
    "core": ("errors",),
    "schedules": ("errors", "views"),
    "data": ("errors", "core", "tables"),
    "objectives": ("errors", "core", "data.records"),
    "privacy": (
        "errors",
        "views",
        "core",
        "schedules",
        "objectives.base",
        "objectives.layer_clips",
        "data.records",
        "data.provenance",
    ),
    "worker": DOMAIN,
    "simulator": (*DOMAIN, "worker"),
    "algorithms": (*DOMAIN, "worker", "simulator"),
    "storage": ("errors", "core", "system", "whole_files"),
    "federation": (*DRIVEN, "tables"),
    "network": (*SERVED, "tables", "interrupts", "build"),
    "audit": (*SERVED, "simulator"),
    "config": BELOW,
    "report": (*BELOW, "config"),
    "runs": (*BELOW, "config", "report"),
    "studies": (*BELOW, "config", "runs", "report"),
    "drafter": (*SERVED, "config", "network.client.ledger_for"),
    "projects": ("errors", "whole_files", "tables", "data", "config", "drafter"),
    "calls": (*BELOW, "config", "runs", "report.references", "studies"),
    "cli": (
        *BELOW,
        "config",
        "runs",
        "report",
        "studies",
        "drafter",
        "projects",
        "calls",
        "interrupts",
        "build",
    ),
    "api": (*BELOW, "config", "runs", "report", "studies", "projects", "calls", "cli", "interrupts"),
}
"""What a room may import: rooms, or one module of a room. ``api`` is `crescendo` itself, with ``__main__``."""

LIBRARIES: dict[str, set[str]] = {"errors": {"crescendo_dp"}, "core": {"numpy", "xxhash"}, "schedules": {"numpy"}}
"""What a room may import from elsewhere, beside the standard library; rooms that are not named, anything.

`crescendo_dp`, which imports nothing of `crescendo`, has its own test: ``dp/tests/test_package.py``.
"""


def modules() -> Iterator[tuple[str, Path]]:
    """Every module by its name within the package; the package's own files are ``api.``."""
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if path.stem.endswith("_pb2"):
            continue
        name = ".".join(part for part in parts if part != "__init__")
        yield ("api" if name in ("", "__main__") else name), path


def imported(name: str, path: Path) -> set[str]:
    """The modules that a module imports, wherever the import stands; of the package without ``crescendo.``, else as written."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module is not None, f"{name}: imports are written in full"
            found.update(_target(node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and name == "api":
            found.update({node.value} if _is_module(node.value) else ())
    return found


def _target(module: str, name: str) -> str:
    """``from a import b``: the module b of the package a, or a itself."""
    return f"{module}.{name}" if _is_module(f"{module}.{name}") else module


def _is_module(dotted: str) -> bool:
    if not dotted.startswith("crescendo."):
        return False
    path = ROOT.joinpath(*dotted.split(".")[1:])
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def ours(names: set[str]) -> set[str]:
    return {name.removeprefix("crescendo.") for name in names if name.startswith("crescendo.") and _is_module(name)}


def room(name: str) -> str:
    return name.partition(".")[0]


def package(name: str) -> str:
    """The outermost folder with modules of its own that a module stands in: with its inner folders it is one package."""
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        folder = ROOT.joinpath(*parts[:depth])
        if not folder.is_dir() or any(path.name != "__init__.py" for path in folder.glob("*.py")):
            return ".".join(parts[:depth])
    return name


def _allowed(name: str, target: str) -> bool:
    lists = (room(name), *ALLOWED[room(name)])
    return any(target == one or target.startswith(f"{one}.") for one in lists)


def test_each_room_imports_what_its_list_names() -> None:
    found = {
        f"{name} -> {target}"
        for name, path in modules()
        for target in ours(imported(name, path))
        if not _allowed(name, target)
    }
    assert found == set()


def test_the_inner_rooms_import_few_libraries() -> None:
    for name, path in modules():
        if room(name) in LIBRARIES:
            outside = {target.partition(".")[0] for target in imported(name, path)} - {"crescendo"}
            assert outside - set(sys.stdlib_module_names) <= LIBRARIES[room(name)], name


def test_no_cycle_between_packages() -> None:
    edges: dict[str, set[str]] = {}
    for name, path in modules():
        edges.setdefault(package(name), set()).update(package(target) for target in ours(imported(name, path)))
    assert {
        f"{a} <-> {b}" for a in edges for b in edges if a < b and _reach(edges, a, b) and _reach(edges, b, a)
    } == set()


def _reach(edges: dict[str, set[str]], start: str, end: str) -> bool:
    seen, waiting = {start}, [start]
    while waiting:
        fresh = edges.get(waiting.pop(), set()) - seen
        seen |= fresh
        waiting += fresh
    return end in seen


def test_two_modules_or_classes_never_share_a_name() -> None:
    names: Counter[str] = Counter()
    for _, path in modules():
        if path.name != "__init__.py":
            names[path.name] += 1
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names.update(node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name for name, times in names.items() if times > 1} == set()


def test_no_module_imports_what_lies_beside_the_package() -> None:
    """The laboratory, the tests and the examples are not installed with it."""
    beside = {path.name for path in ROOT.parent.iterdir() if path.is_dir() and path != ROOT}
    assert {"lab", "tests"} <= beside
    found = {f"{name} -> {target}" for name, path in modules() for target in imported(name, path)}
    assert {one for one in found if one.partition(" -> ")[2].partition(".")[0] in beside} == set()


LAB: dict[str, tuple[str, ...]] = {
    "pipeline": (),
    "experiments": ("pipeline",),
    "theory": ("pipeline", "experiments.training"),
    "contests": ("pipeline", "experiments.training"),
    "trials": ("pipeline.drawing", "pipeline.experiment", "experiments.training"),
    "benchmarks": (),
}
"""What each room of the laboratory may import of the others; its own files may import all."""


def test_each_room_of_the_laboratory_imports_what_its_list_names() -> None:
    found = set()
    for path in sorted((ROOT.parent / "lab").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT.parent / "lab").with_suffix("").parts)
        allowed = (room(name), *LAB[room(name)]) if room(name) in LAB else (*LAB, "catalogue", "commands", "reproduce")
        for target in imported(name, path):
            inner = target.removeprefix("lab.")
            if target.startswith("lab.") and not any(f"{inner}.".startswith(f"{one}.") for one in allowed):
                found.add(f"{name} -> {target}")
    assert found == set()


def test_terms_are_made_in_one_place() -> None:
    """What server, clients, aggregators and simulations work under comes from `agree`, so that they cannot differ."""
    calls = (
        name
        for name, path in modules()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Terms"
    )
    assert list(calls) == ["federation.agreement"]


ALONE = ("network.authority", "network.server.accountant_process", "network.transport.shutdown")
"""Modules that no virtual clock runs: commands of an operator, the body of a child process, signals."""

CLOCKS = {"queue", "random", "secrets", "threading", "time", "uuid"}
CHANGES = {
    "close",
    "fdatasync",
    "fdopen",
    "fsync",
    "ftruncate",
    "open",
    "pread",
    "pwrite",
    "replace",
    "unlink",
    "urandom",
}


def test_network_and_storage_ask_the_machine_by_way_of_system() -> None:
    """A clock, thread, lock, random number or change on a disk that goes another way is not simulated."""
    found = set()
    for name, path in modules():
        if room(name) in ("storage", "network", "whole_files") and not name.startswith(ALONE):
            found |= {f"{name}: {module}" for module in imported(name, path) & CLOCKS}
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in CHANGES:
                    found |= {f"{name}: os.{node.attr}"} if node.value.id == "os" else set()
    assert found == set()
