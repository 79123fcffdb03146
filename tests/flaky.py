"""Flaky tests: `make flaky` repeats, on a busy machine, every test that talks over the network or is a command's.

    python -m tests.flaky [--count 20] [--busy 2] [--minutes 240] [PATH]...

Two processes that only count keep the cores busy, so that whatever hopes to be quick enough is late. All tests run once, then all
of them again, and so on; at the end each one that failed is named, with how often. This file is also the pytest plugin that
repeats them.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

PATHS = (
    "tests/network",
    "tests/cli",
    "tests/conformance",
    "tests/federation/test_declining.py",  # of that folder what uses sockets: the rest only computes
    "tests/federation/test_own_federation.py",
)
COUNT = "FLAKY_COUNT"
BUSY = (
    "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(10**6))"  # ends with who began it
)
GRACE = 120.0  # seconds for pytest to say what it knows, once the time is up


# -- the plugin -------------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def repetition(request: pytest.FixtureRequest) -> Any:
    """Its number; doctests of this file have none."""
    return getattr(request, "param", None)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    numbers = range(int(os.environ[COUNT]))
    metafunc.parametrize("repetition", numbers, indirect=True, ids=[f"#{number}" for number in numbers])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _number(item.nodeid))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name a failure at once: the end may be hours away."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\nfailed: {report.nodeid}\n{report.longreprtext[-4000:]}", flush=True)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Every test that failed, and how often of how many times."""
    stats = terminalreporter.stats
    ran = Counter(_test(report.nodeid) for kind in ("passed", "failed") for report in stats.get(kind, ()))
    failed = Counter(_test(report.nodeid) for kind in ("failed", "error") for report in stats.get(kind, ()))
    terminalreporter.section(f"{ran.total()} runs of {len(ran)} tests, {failed.total()} failures")
    for test, times in failed.most_common():
        terminalreporter.line(f"{times} of {ran[test]}: {test}")


def _number(nodeid: str) -> int:
    found = re.search(r"#(\d+)", nodeid)
    return 0 if found is None else int(found[1])


def _test(nodeid: str) -> str:
    """A test without the number of its repetition.

    >>> _test("tests/test_a.py::test_b[#3]"), _test("tests/test_a.py::test_b[#3-left]"), _test("a.py::b[left-#12]")
    ('tests/test_a.py::test_b', 'tests/test_a.py::test_b[left]', 'a.py::b[left]')
    """
    return re.sub(r"-#\d+|#\d+-?", "", nodeid).replace("[]", "")


# -- the command ------------------------------------------------------------------------------------------------------------


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Processes that leave the others less of the machine."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def repeat(count: int, minutes: float, paths: list[str]) -> int:
    """Run the tests; pytest's exit code. When the time is up what has run until then is reported."""
    command = [sys.executable, "-m", "pytest", "-p", "tests.flaky", "-n", "2", "--tb=short", *paths]
    with subprocess.Popen(command, env={**os.environ, COUNT: str(count)}) as running:
        try:
            return running.wait(60 * minutes)
        except subprocess.TimeoutExpired:
            print(f"stopped after {minutes:g} minutes: not every test ran {count} times", flush=True)
            running.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                running.wait(GRACE)
            return 1
        finally:
            running.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--busy", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=240.0)
    parser.add_argument("paths", nargs="*", default=PATHS)
    said = parser.parse_args()
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # where it is ignored, in the background, pytest would ignore it
    with busy(said.busy):
        sys.exit(repeat(said.count, said.minutes, said.paths))


if __name__ == "__main__":
    main()
