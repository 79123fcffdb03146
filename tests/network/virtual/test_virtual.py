"""Whole federations on a virtual clock: some seeds in every run of the tests, new ones in the soak; see ``python -m
tests.network.virtual --help``."""

from __future__ import annotations

import random

import pytest

from crescendo.core.server import Server
from tests.network.virtual.__main__ import main
from tests.network.virtual.kept_seeds import KEPT
from tests.network.virtual.planted import plant
from tests.network.virtual.runs import run
from tests.network.virtual.schedules import drawn
from tests.network.virtual.shrink import script
from tests.soak import times

FIXED = (1, 5, 6, 9, 13, 22, 24, 36, 37, 47, 48, 59, 66)
SOAK_SEEDS = times(60)
FOUND_BY = {  # a planted bug, and a seed that finds it in a second or two; the whole table: docs/security.md
    "ack_before_disk": 0,
    "fresh_noise": 1,
    "one_round_further": 0,
    "round_too_early": 1,
    "snapshot_without_void": 1,
    "tests.network.virtual.planted_blind:sent_is_remembered": 6,
    "tests.network.virtual.planted_blind:snapshot_in_float32": 1,
    "tests.network.virtual.planted_blind:sums_in_short_floats": 24,
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*FIXED, *KEPT])
def test_a_federation_keeps_what_is_promised_whatever_goes_wrong(seed: int) -> None:
    outcome = run(seed, drawn(seed))
    assert not outcome.problems, f"python -m tests.network.virtual --seeds 1 --first-seed {seed} --log"


@pytest.mark.slow
def test_a_run_is_determined_by_its_seed() -> None:
    once, again = (run(5, drawn(5)) for _ in range(2))
    assert once.fingerprint == again.fingerprint


@pytest.mark.slow
@pytest.mark.parametrize("bug", FOUND_BY)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(bug, monkeypatch)
    assert run(FOUND_BY[bug], drawn(FOUND_BY[bug])).problems


def test_a_bug_of_another_module_is_planted_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Server._count_open
    plant("tests.network.virtual.planted:round_too_early", monkeypatch)
    assert Server._count_open is not before


@pytest.mark.slow
def test_the_command_tells_how_to_run_a_failure_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant("round_too_early", monkeypatch)
    assert main(["--first-seed", "1", "--seeds", "1"]) == 1
    assert "again: python -m tests.network.virtual --seeds 1 --first-seed 1" in capsys.readouterr().out


def test_the_script_of_a_failure_is_a_program() -> None:
    compile(script(3, drawn(3), "lost_sync"), "script", "exec")


@pytest.mark.soak
def test_new_seeds() -> None:
    first = random.SystemRandom().randrange(10_000, 10**9)
    assert main(["--first-seed", str(first), "--seeds", str(SOAK_SEEDS)]) == 0
