"""Sizes fitted to gradients and rounds: exactly as many of both as were asked for, or a sentence with the line to write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crescendo.config.fitted_sizes import MOST_ROUNDS, fitted
from crescendo.config.loading import read
from crescendo.errors import ConfigError
from crescendo.federation.schedule_terms import RunSchedule
from crescendo.schedules.kinds import SIZES

RULES = st.sampled_from(
    [
        None,
        {"kind": "constant"},
        {"kind": "power", "power": 0},
        {"kind": "power", "power": 0.5},
        {"kind": "power", "power": 2, "shift": 16},
        {"kind": "log"},
    ]
)
BASE = {"data": {"source": "a9a"}, "clients": {"count": 5}}
STEPS = {"kind": "constant", "eta": 0.1}


def schedule_of(**schedule: object) -> dict[str, object]:
    return {**BASE, "schedule": {"steps": STEPS, **schedule}}


@given(RULES, st.integers(1, 300), st.integers(0, 10**6))
def test_fitted_sizes_reach_the_gradients_in_exactly_the_rounds(
    rule: dict[str, object] | None, rounds: int, more: int
) -> None:
    total = 3 * rounds + more
    try:
        found = fitted({"gradients": total, "rounds": rounds, **({} if rule is None else {"sizes": rule})}, 5)
    except ValueError as error:
        assert "write schedule.gradients" in str(error) and more < 3 * rounds
        return
    made = {name: value for name, value in found["sizes"].items() if name != "kind"}
    sizes = SIZES[found["sizes"]["kind"]].make(made)
    assert found["gradients"] == total and "rounds" not in found
    assert sizes.before(rounds - 1) < total <= sizes.before(rounds)


def test_the_line_that_a_refusal_names_works() -> None:
    config = read(schedule_of(gradients=4500, sizes={"kind": "power", "scale": 7}))
    assert config.schedule.gradients == 4500
    with pytest.raises(ConfigError, match=r"--set schedule\.sizes\.scale="):
        read(config, ["schedule.rounds=10"])
    fitted_again = read(config, ["schedule.rounds=10", "schedule.sizes.scale="])
    assert (fitted_again.schedule.gradients, fitted_again.schedule.rounds) == (4500, None)
    assert read(fitted_again).schedule == fitted_again.schedule


def test_gradients_per_client_and_sizes_per_client_are_fitted_alike() -> None:
    all_together = read(schedule_of(gradients=5000, rounds=10)).schedule
    each = read(schedule_of(gradients_per_client=1000, rounds=10)).schedule
    assert each.sizes == all_together.sizes
    per_client = read(schedule_of(gradients=5000, rounds=10, sizes={"kind": "power", "per_client": True})).schedule
    assert getattr(per_client.sizes, "scale") == pytest.approx(getattr(all_together.sizes, "scale") / 5, rel=0.01)  # noqa: B009
    odd = read(schedule_of(gradients=5001, rounds=10, sizes={"kind": "power", "per_client": True})).schedule
    assert RunSchedule(odd, 5).sizes.rounds == 10


@pytest.mark.parametrize(
    ("schedule", "says"),
    [
        ({"gradients": 100}, "schedule.sizes is missing; add rounds = 20"),
        ({"rounds": 10}, "schedule.sizes is missing; add gradients = 10000"),
        ({"rounds": 10, "sizes": {"kind": "power"}}, "schedule.sizes has no scale; add gradients"),
        ({"rounds": 10, "sizes": {"kind": "constant"}}, "schedule.sizes has no size; add gradients"),
        ({"rounds": 10, "gradients": 9}, "write schedule.gradients = 10 or more, or schedule.rounds = 9 or fewer"),
        ({"rounds": MOST_ROUNDS + 1, "gradients": 10**9}, "write schedule.sizes out"),
        ({"rounds": 2.5, "gradients": 100}, "schedule.rounds must be a whole number"),
        ({"rounds": 5, "gradients": 100, "sizes": {"kind": "power", "power": "x"}}, "schedule.sizes.power must be"),
        ({"rounds": 5, "gradients": 100, "sizes": 5}, "schedule.sizes"),
    ],
)
def test_a_table_that_cannot_be_fitted_is_a_sentence(schedule: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read(schedule_of(**schedule))


def test_the_most_rounds_that_are_fitted() -> None:
    made = read(schedule_of(gradients=MOST_ROUNDS, rounds=MOST_ROUNDS, sizes={"kind": "constant"}))
    assert getattr(made.schedule.sizes, "size") == 1  # noqa: B009
