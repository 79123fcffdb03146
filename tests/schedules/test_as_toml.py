"""A delay written as a line of a run file is read back as the same delay."""

import tomllib

import pytest

from crescendo.federation.kind_tables import made
from crescendo.federation.schedule_terms import Schedule
from crescendo.schedules import ConstantDelay, Delay, PowerDelay, RecipeDelay, StronglyConvexDelay
from crescendo.schedules.as_toml import wait_line
from crescendo.schedules.delay import LiftedDelay
from crescendo.schedules.gamma import LogGamma
from crescendo.schedules.kinds import DELAYS

DELAYS_TO_WRITE = [
    ConstantDelay(1349.001),
    ConstantDelay(1e300),
    PowerDelay(1.5, 0.5, 175.851, 2),
    RecipeDelay(2.0, LogGamma(), 30.0, 5.5),
]


@pytest.mark.parametrize("delay", DELAYS_TO_WRITE, ids=repr)
def test_the_line_is_read_as_the_delay(delay: Delay) -> None:
    sized = "schedule.rounds = 1\nschedule.sizes = {kind = 'constant', size = 1}\nschedule.steps = {kind = 'constant', eta = 1}"
    table = tomllib.loads(f"{sized}\n{wait_line(delay)}")["schedule"]
    read = Schedule.model_validate(table).wait.tau
    assert read is not None and made(DELAYS, read, "schedule.wait.tau") == delay


def test_the_theorems_delay_has_its_keys_beside_tau() -> None:
    assert tomllib.loads(wait_line(StronglyConvexDelay(6317, 25.5)))["schedule"]["wait"] == {
        "tau": "theorem",
        "m": 6317,
        "m1": 25.5,
    }


def test_a_delay_that_no_run_file_has_is_shown_as_python_has_it() -> None:
    assert wait_line(LiftedDelay(PowerDelay(1, 0.5, 0), 2.0)).startswith("tau = LiftedDelay(")
