"""What every test shares: the folder of public data sets beside the repository, a cache of the tests' own, a date, how to search.

Property tests try the same examples in every run, so that a failure is of the change that was made; with
HYPOTHESIS_PROFILE=searching they look for new ones, as `make search` does. No example fails for being slow.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.soak import FACTOR, MINUTES

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("searching", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

ROOT = Path(__file__).resolve().parents[1]
BEGAN = time.monotonic()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The public data sets; a test that asks for them is skipped where they are absent."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the public data sets are not in ../shared/data")
    return folder


@pytest.fixture(scope="session", autouse=True)
def own_cache() -> Iterator[None]:
    """Parsed files go to a folder of the repository's, never to the user's; data is found only where a test says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRESCENDO_CACHE", os.fspath(ROOT / ".pytest_cache" / "crescendo"))
        patch.delenv("CRESCENDO_DATA", raising=False)
        patch.setenv("SOURCE_DATE_EPOCH", "1793000000")  # the date on pages, which are compared byte by byte
        yield


@pytest.fixture(scope="session")
def registries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Places for registries of ledgers, each made when it is used."""
    return (tmp_path_factory.getbasetemp() / "registries" / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def own_registry(registries: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ledgers are registered for one test alone, its subprocesses included, never in the user's own registry."""
    folder = next(registries)
    monkeypatch.setenv("CRESCENDO_REGISTRY", os.fspath(folder))
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A longer soak has longer tests."""
    for item in items:
        if item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.timeout(900 * max(1.0, FACTOR)))


@pytest.fixture(autouse=True)
def soak_ends_in_time(request: pytest.FixtureRequest) -> None:
    """No test of the soak begins after its time is over."""
    if request.node.get_closest_marker("soak") and time.monotonic() - BEGAN > 60 * MINUTES:
        pytest.skip(f"the {MINUTES:g} minutes of the soak are over; CRESCENDO_SOAK_MINUTES gives it more")
