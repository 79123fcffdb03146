"""One mutant's trial: audits, short ones first, then its tests, in processes that are forked from one that has all in memory.

A mutant of a function is planted by exchanging the code of the function, wherever it was imported to. Where a mutant is in the
body of a module or a class, or in a compiled loop, the process forgets the package and imports it again, and so meets the
mutant. Loops are interpreted for the audits; for the tests they are compiled, with a cache of their own.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tests.audit.mutation.operators import PACKAGE, SOURCES, Mutant, path_of
from tests.audit.mutation.targets import BY_MODULE

SHORT, DEFAULT = ((4, 8), (12, 100)), (400, 200)  # runs and tries; the last are those of `crescendo audit`
# processor seconds for one audit, all audits of a mutant, and its quick or slow tests; what takes longer hangs
_AUDIT_SECONDS, _ALL_AUDITS, _TEST_SECONDS = 12, 90, 60
_TIMES_UP = (signal.SIGPROF, signal.SIGXCPU, signal.SIGKILL)
_WALL = 20  # times as much of the clock, for one that waits and computes nothing
_MOST_RUNS = {SHORT[0]: 2, SHORT[1]: 5, DEFAULT: 1}  # that are audited at these settings
_COMPILED = "crescendo.objectives.linear.margin_kernels"
_RUNS_COMPILED = (
    "crescendo.objectives.linear.margin_model"  # no line of a compiled loop is seen to be executed, but its caller's
)


def warm() -> None:
    """Import once what every child needs, compile the loops, and forget what was computed, which no mutant may meet."""
    import pytest  # noqa: F401
    import scipy.optimize
    import scipy.signal
    import scipy.stats  # noqa: F401

    from crescendo_dp.accounting import epsilon
    from tests.audit.mutation.audited_runs import RUNS, audited

    for name in [*RUNS][:4]:
        audited(name, *SHORT[0])
    epsilon.cache = epsilon._Cache()
    for one in gc.get_objects():
        if isinstance(one, functools._lru_cache_wrapper):
            one.cache_clear()
    gc.collect()
    gc.freeze()


# -- a child -------------------------------------------------------------------------------------------------------------


class _Planted(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from code that was compiled before."""

    def __init__(self, module: str, code: CodeType) -> None:
        self._module, self._code = module, code

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != self._module:
            return None
        where = path_of(name)
        spec = importlib.util.spec_from_file_location(name, where, loader=self)
        assert spec is not None
        spec.has_location = True
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, module.__dict__)


def child(
    work: Callable[[], Any], mutant: Mutant | None, seconds: int, cache: Path | None = None
) -> tuple[Any, str, float]:
    """What ``work`` returns in a forked process where the mutant is planted, how it ended, and processor seconds.

    It ended by "return", "error", "hang" or "death".
    """
    code = None if mutant is None else mutant.code
    receives, sends = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(receives)
        _in_child(work, mutant, code, seconds, cache, sends)
    os.close(sends)
    said, ended, used = _heard(pid, receives, seconds)
    if not said:
        return None, ended, used
    answer = json.loads(said)
    return answer["found"], answer["ended"], used


def _in_child(
    work: Callable[[], Any], mutant: Mutant | None, code: CodeType | None, seconds: int, cache: Path | None, sends: int
) -> None:
    status = 1
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        try:
            if mutant is not None and code is not None:
                _plant(mutant, code, cache)
            answer = {"found": work(), "ended": "return"}
        except BaseException as error:
            answer = {"found": f"{type(error).__name__}: {error}"[:200], "ended": "error"}
        os.write(sends, json.dumps(answer).encode())
        status = 0
    finally:
        os._exit(status)


def _plant(mutant: Mutant, code: CodeType, cache: Path | None) -> None:
    """Exchange the code of the mutant's function, or have its module imported again."""
    function = _function(mutant) if mutant.module != _COMPILED else None
    changed = None if function is None else _code_of(code, function.__code__.co_qualname)
    if function is not None and changed is not None and changed.co_freevars == function.__code__.co_freevars:
        function.__code__ = changed
        return
    if mutant.module == _COMPILED:
        from numba.core import config

        if cache is None:  # an audit runs the loops on a few records: interpreting them is cheaper than compiling them
            vars(config)["DISABLE_JIT"] = True
        else:
            vars(config)["CACHE_DIR"] = os.fspath(cache)
    for name in [*sys.modules]:
        ours = ("crescendo", "crescendo_dp", "tests", "lab")
        if name.partition(".")[0] in ours and not name.startswith("tests.audit.mutation"):
            del sys.modules[name]
    sys.modules.pop("tests.audit.mutation.audited_runs", None)
    sys.meta_path.insert(0, _Planted(mutant.module, code))
    # at once: pytest loads the files that it is given by itself, and would bring the sound module back
    importlib.import_module(mutant.module)


def _function(mutant: Mutant) -> FunctionType | None:
    """The live function that the mutant is in, or the one around it; None where it is in none."""
    from importlib import import_module

    found: Any = import_module(mutant.module)
    for part in mutant.function.split("."):
        held = vars(found).get(part) if isinstance(found, type | ModuleType) else None
        if held is None:
            return None
        found = _bare(held)
        if isinstance(found, FunctionType):
            return found
    return None


def _bare(held: Any) -> Any:
    """What was decorated."""
    for name in ("__func__", "fget", "func", "__wrapped__"):
        inner = getattr(held, name, None)
        if inner is not None and not isinstance(held, FunctionType):
            return _bare(inner)
    return _bare(held.__wrapped__) if hasattr(held, "__wrapped__") else held


def _code_of(code: CodeType, name: str) -> CodeType | None:
    """The code of this name within a module's."""
    for one in code.co_consts:
        if isinstance(one, CodeType):
            if one.co_qualname == name:
                return one
            if name.startswith(one.co_qualname + ".") and (found := _code_of(one, name)) is not None:
                return found
    return None


def _heard(pid: int, receives: int, seconds: int) -> tuple[bytes, str, float]:
    """What the child writes; one that neither writes nor computes is killed by the clock."""
    killer = threading.Timer(_WALL * seconds, lambda: os.killpg(pid, signal.SIGKILL))
    killer.daemon = True
    killer.start()
    parts = []
    while part := os.read(receives, 1 << 16):
        parts.append(part)
    os.close(receives)
    _, status, usage = os.wait4(pid, 0)
    killer.cancel()
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # what it started
    ended = "hang" if os.WIFSIGNALED(status) and os.WTERMSIG(status) in _TIMES_UP else "death"
    return b"".join(parts), ended, usage.ru_utime + usage.ru_stime


# -- stages --------------------------------------------------------------------------------------------------------------


def reached(kept: Path | None) -> dict[str, dict[str, list[int]]]:
    """For every run: which lines of the package a short audit executes, by module; ``kept`` has them if no line has changed."""

    def names() -> list[str]:
        from tests.audit.mutation.audited_runs import RUNS

        return [*RUNS]

    digest = _digest()
    if kept is not None and kept.exists() and (known := json.loads(kept.read_text()))["digest"] == digest:
        return dict(known["lines"])
    found = {}
    for name in child(names, None, _AUDIT_SECONDS)[0]:
        lines, ended, _ = child(lambda name=name: _traced(name), None, _ALL_AUDITS)  # type: ignore[misc]
        if ended != "return":
            raise AssertionError(f"the sound run {name!r} cannot be audited: {lines}")
        found[name] = lines
    if kept is not None:
        kept.write_text(json.dumps({"digest": digest, "lines": found}))
    return found


def _digest() -> str:
    """Of the package and of the runs."""
    files = [
        *(file for folder in SOURCES for file in sorted(folder.rglob("*.py"))),
        PACKAGE / "tests/audit/mutation/audited_runs.py",
    ]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _traced(name: str) -> dict[str, list[int]]:
    folders = tuple(os.fspath(folder) + os.sep for folder in SOURCES)
    lines: dict[str, set[int]] = {}

    def local(frame: Any, event: str, _: Any) -> Any:
        if event == "line":
            lines[frame.f_code.co_filename].add(frame.f_lineno)
        return local

    def begins(frame: Any, event: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(folders) or "/audit/" in file:
            return None
        lines.setdefault(file, set()).add(frame.f_lineno)
        return local

    from tests.audit.mutation.audited_runs import audited

    sys.settrace(begins)
    failed = audited(name, *SHORT[1])
    sys.settrace(None)
    if failed:
        raise AssertionError(f"a sound run fails {failed}")
    return {_module_of(file): sorted(found) for file, found in lines.items()}


def _module_of(file: str) -> str:
    return ".".join(Path(file).relative_to(PACKAGE).with_suffix("").parts).removeprefix("dp.")


def runs_for(mutant: Mutant, lines: Mapping[str, Mapping[str, Sequence[int]]]) -> list[str]:
    """The runs that execute the mutant's line. What runs on import or is compiled is taken to be executed where its module is."""
    of_a_class = "." not in mutant.function and mutant.function[0].isupper()
    anyway = of_a_class or mutant.function == "<module>" or mutant.module == _COMPILED
    found = []
    for name, by_module in lines.items():
        here = by_module.get(_RUNS_COMPILED if mutant.module == _COMPILED else mutant.module, ())
        if here and (anyway or set(here) & set(mutant.lines)):
            found.append(name)
    return found


def audits(mutant: Mutant, names: Sequence[str]) -> tuple[dict[str, Any] | None, float]:
    """What the first audit that fails says, short audits first; None if all pass."""
    settings = (*SHORT, DEFAULT) if BY_MODULE[mutant.module].chance else SHORT
    asked = [(name, *given) for given in settings for name in names[: _MOST_RUNS.get(given)]]
    found, ended, used = child(lambda: _first_finding(asked), mutant, _ALL_AUDITS)
    if ended != "return":
        return {"run": names[0], "runs": 0, "by": [ended], "says": found}, used
    return found, used


def _first_finding(asked: Sequence[tuple[str, int, int]]) -> dict[str, Any] | None:
    for name, runs, tries in asked:
        # one that takes longer dies of it
        signal.setitimer(signal.ITIMER_PROF, _AUDIT_SECONDS * (3 if (runs, tries) == DEFAULT else 1))
        try:
            from tests.audit.mutation.audited_runs import audited

            found = audited(name, runs, tries)
        except BaseException as error:
            return {"run": name, "runs": runs, "by": ["error"], "says": f"{type(error).__name__}: {error}"[:200]}
        if found:
            return {"run": name, "runs": runs, "by": found}
    signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def tests(mutant: Mutant, files: Sequence[str], cache: Path | None) -> tuple[str | None, float]:
    """The first test that fails, quick ones first, or how it ended; None if all pass. Doctests of the module are among them."""
    used = 0.0
    own = os.fspath(path_of(mutant.module).relative_to(PACKAGE))
    for marks in ("not slow and not soak", "slow and not soak"):

        def work(marks: str = marks) -> str | None:
            return _first_failure([*files, own], marks)

        found, ended, seconds = child(work, mutant, _TEST_SECONDS, cache)
        used += seconds
        if ended != "return" or found:
            return found if ended == "return" else ended, used
    return None, used


def _first_failure(files: Sequence[str], marks: str) -> str | None:
    import pytest

    class Catches:
        failed: str | None = None

        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed:
                self.failed = report.nodeid

        def pytest_collectreport(self, report: Any) -> None:
            if report.failed:
                self.failed = f"{report.nodeid} cannot be collected"

    catches = Catches()
    with tempfile.TemporaryDirectory() as folder:
        asked = [
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            "-m",
            marks,
            "--basetemp",
            f"{folder}/tmp",
            *files,
        ]
        status = pytest.main(asked, plugins=[catches])
    if catches.failed is None and int(status) not in (0, 5):
        return f"pytest ended with {int(status)}"
    return catches.failed


@contextmanager
def own_cache(mutant: Mutant) -> Iterator[Path | None]:
    """A folder for what is compiled of a mutant, and None where nothing of it is: the program's own is then right."""
    if mutant.module != _COMPILED:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def tried(mutant: Mutant, names: Sequence[str], files: Sequence[str]) -> dict[str, Any]:
    """The whole trial, as a line of a file."""
    began = time.time()
    with own_cache(mutant) as cache:
        audit, audit_seconds = audits(mutant, names)
        test, test_seconds = (None, 0.0) if audit is not None else tests(mutant, files, cache)
    return {
        "key": mutant.key,
        "name": mutant.name,
        "module": mutant.module,
        "operator": mutant.operator,
        "runs": len(names),
        "audit": audit,
        "test": test,
        "audit_seconds": round(audit_seconds, 2),
        "test_seconds": round(test_seconds, 2),
        "clock": round(time.time() - began, 1),
    }
