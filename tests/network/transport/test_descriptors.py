"""The limit of open files is raised at start, and held against the clients that are named."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from crescendo.errors import UsageError
from crescendo.network.transport import descriptors
from crescendo.network.transport.descriptors import FEWEST, RESERVE, connections, needed, open_now, raise_limit


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    """This process's limits, which are put back."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def soft() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_a_low_soft_limit_is_raised_to_what_is_enough_and_no_further_than_allowed(limits: tuple[int, int]) -> None:
    low, hard = len(open_now()) + 200, limits[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (low, hard))
    assert raise_limit(5) is None
    enough = descriptors.ENOUGH if hard == resource.RLIM_INFINITY else min(descriptors.ENOUGH, hard)
    assert soft() == enough > low


def test_a_limit_that_was_higher_stays(limits: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "ENOUGH", 300)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1000, limits[1]))
    assert raise_limit(5) is None and soft() == 1000


def test_more_clients_than_the_limit_has_room_for_are_named_with_the_value_that_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1024, 1024))
    said = raise_limit(1100)
    assert said is not None
    assert "1100 clients" in said and str(needed(1100)) in said and "1024" in said and "LimitNOFILE=" in said
    assert raise_limit(300) is None


def test_a_limit_that_leaves_nothing_for_connections_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    few = len(open_now()) + RESERVE + FEWEST - 2
    monkeypatch.setattr(resource, "getrlimit", lambda which: (few, few))
    with pytest.raises(UsageError, match=f"may have {few} open files.*raise it to {needed(2)}"):
        raise_limit(2)


def test_no_limit_at_all_does_not_mean_connections_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    without = resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda which: (without, without))
    assert raise_limit(5) is None and connections(5) < descriptors.ENOUGH < connections(10_000)
