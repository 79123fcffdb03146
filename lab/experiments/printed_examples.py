"""The values of the paper's privacy examples that we use, their errors, and a tight accountant's answer for the same runs.

`docs/privacy_examples.md` shows the same three tables, and a test compares them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from crescendo_dp.accounting.epsilon import account
from crescendo_dp.events import PoissonGaussian
from crescendo_dp.paper.constants import Constants
from crescendo_dp.planning.calibration import least_sigma
from lab.experiments import as_printed

R0 = 1 / math.e
DELTA = 5.5e-8
Sizes = tuple[int, ...]


class PrintedValue(NamedTuple):
    """A value of the docs: ``value`` is its text, and the computed number must round to it."""

    what: str
    value: str
    compute: Callable[[], float]

    @property
    def half_a_digit(self) -> float:
        mantissa, _, exponent = self.value.partition("e")
        decimals = len(mantissa.partition(".")[2])
        return 0.5000001 * 10.0 ** (int(exponent or 0) - decimals)

    def agrees(self, number: float) -> bool:
        """
        >>> PrintedValue("pi", "3.14", lambda: 0.0).agrees(3.1449), PrintedValue("pi", "3.1e0", lambda: 0.0).agrees(3.2)
        (True, False)
        """
        return abs(number - float(self.value)) <= self.half_a_digit


def grown(first: int, growth: float, gradients: int) -> Sizes:
    """Return the sizes first + ceil(growth i), the last round cut."""
    sizes: list[int] = []
    while gradients:
        sizes.append(min(first + math.ceil(growth * len(sizes)), gradients))
        gradients -= sizes[-1]
    return tuple(sizes)


EXAMPLE_3 = tuple(16 + math.ceil(1.3216327772100012 * i) for i in range(183))


@cache
def tight(sizes: Sizes, records: int, sigma: float, delta: float) -> float:
    events = [(PoissonGaussian(size / records, sigma), rounds) for size, rounds in Counter(sizes).items()]
    return account(events, delta, state_error=False).epsilon


@cache
def noise(sizes: Sizes, start: float) -> float:
    """Return the sigma that (1, 5.5e-8) needs for 10,000 records."""
    return least_sigma(lambda sigma: tight(sizes, 10_000, sigma, DELTA), 1.0, start, rtol=2e-4)


def step(passes: int) -> as_printed.GammaPass:
    """Return Example 3 after some passes of the iteration on m/T, as printed except for T, which the paper rounds."""
    gamma, found = 0.0, None
    for _ in range(passes):
        found = as_printed.case_one_step(gamma, 1, records=10_000, gradients=25_000, first_size=16, sigma=8, r0=R0)
        gamma = found.gamma
    assert found is not None
    return found


def budget_at_the_fixed_point() -> float:
    return as_printed.budget(8, R0 / 8, step(60).gamma)


def true_example_4_delta() -> float:
    """Return delta with the true T: 25,000 q (i+m) summed over T rounds from 0 is 125,000."""
    q = 0.000000953265625
    m = 16 / (25_000 * q)
    rounds = (1 - 2 * m + math.sqrt((2 * m - 1) ** 2 + 8 * 5 / q)) / 2
    return as_printed.delta(as_printed.budget(8, 0.0247 / 8, m / rounds), 2)


def printed_example_4_factor() -> float:
    """Return (1+m/T)^5 / sqrt(1 - r0/5), where it should be r0/8."""
    return 1.20727889913**5 / math.sqrt(1 - 0.0247 / 5)


EXAMPLE_1_BUDGET = as_printed.budget(3, 0.0110 / 3, 0.08727185455418175)
EXAMPLE_1_SECOND_BUDGET = as_printed.budget(3, 0.0110 / 3, 4026.8070594438323 / 50168)

FORMULAS = [
    PrintedValue("r0(3)", "0.010990", lambda: Constants.fixed_point(3)),
    PrintedValue("r0(5) (the paper prints 0.0202)", "0.020335", lambda: Constants.fixed_point(5)),
    PrintedValue("B at p = 1", "0.5321797270231777", lambda: Constants.main(1)[1]),
    PrintedValue(
        "K- / (q^(-1/3) N) at epsilon = 2",
        "0.8447826585127415",
        lambda: Constants.main(1)[1] * 2 ** (2 / 3),
    ),
    PrintedValue("smallest sigma of r0(sigma)", "1.13654", Constants.smallest_sigma),
    PrintedValue("Example 1: q from K <= K-", "6.028856829700258e-7", lambda: (0.8447826585127415 / 100) ** 3),
    PrintedValue("Example 1: q from K <= K*", "6.72222222222222e-8", lambda: Constants(1, 0.0110, 3).D / 100),
    PrintedValue("Example 1: largest budget", "1.97075599058834", lambda: EXAMPLE_1_BUDGET),
    PrintedValue(
        "Example 1: delta at epsilon = 2", "0.0205708722045398", lambda: as_printed.delta(EXAMPLE_1_BUDGET, 2)
    ),
    PrintedValue("Example 2: q from K <= K*", "8.1608e-7", lambda: Constants(1, 0.0202, 5).D / 10),
    PrintedValue(
        "Example 2: sigma / budget", "5.31257308281", lambda: 5 / as_printed.budget(5, 0.0202 / 5, 0.39599921204076777)
    ),
    PrintedValue("Example 3: u0", "0.4495546831835495", lambda: Constants(1, R0, 8).u0),
    PrintedValue("Example 3: u1", "0.15275204077456322", lambda: Constants(1, R0, 8).u1),
    PrintedValue("Example 3: r", "5.7460446671129635", lambda: Constants(1, R0, 8).r),
    PrintedValue("Example 3: D at m/T = 0", "0.0010573069002860367", lambda: Constants(1, R0, 8).D),
    PrintedValue("Example 3: B at m/T = 0", "0.1368988621622339", lambda: Constants(1, R0, 8).B),
    PrintedValue(
        "Example 3: B after its first pass", "0.12819685818649007", lambda: Constants(1, R0, 8, 0.055680412559207).B
    ),
    PrintedValue(
        "Example 3: B after its second pass", "0.12734354695486969", lambda: Constants(1, R0, 8, 0.061482363524606794).B
    ),
    PrintedValue("Example 3: first q", "1.6420239582699232e-4", lambda: step(1).q),
    PrintedValue("Example 3: last q it prints", "1.3216327772100012e-4", lambda: (0.12734354695486969 / 2.5) ** 3),
    PrintedValue("Example 3: its m", "12.106", lambda: 16 / (10_000 * 1.3216327772100012e-4)),
    PrintedValue(
        "Example 3: its T, an upper bound", "195", lambda: as_printed.rounds(1, 25_000, 10_000, 1.3216327772100012e-4)
    ),
    PrintedValue("Example 3: its m/T", "0.06208", lambda: 12.106237281566509 / 195),
    PrintedValue("Example 3: fixed point of m/T", "0.062333", lambda: step(60).gamma),
    PrintedValue("Example 3: budget there", "5.7752", budget_at_the_fixed_point),
    PrintedValue("Example 3: delta there", "5.72e-8", lambda: as_printed.delta(budget_at_the_fixed_point(), 1)),
    PrintedValue("Example 3: its budget", "5.781955822", lambda: as_printed.budget(8, R0 / 8, 0.06208326811059748)),
    PrintedValue("Example 3: its delta", "5.50e-8", lambda: as_printed.delta(5.78195582192962, 1)),
    PrintedValue(
        "Example 5: B at m/T = 0, epsilon = 2", "0.21731339780957962", lambda: Constants(1, R0, 8).B * 2 ** (2 / 3)
    ),
    PrintedValue("Example 5: budget", "6.964834261123335", lambda: as_printed.budget(8, R0 / 8, 0.023272643372880444)),
    PrintedValue("Example 5: delta", "8.57e-22", lambda: as_printed.delta(6.964834261123335, 2)),
]

ERRORS = [
    PrintedValue(
        "K* must have (1+m/T)^-2: ratio printed/true at Example 1's m/T", "1.3975", lambda: 1.08727185455418175**4
    ),
    PrintedValue(
        "Example 1: its second delta, printed for epsilon = 6, is at epsilon = 8",
        "6.345773389117e-8",
        lambda: as_printed.delta(EXAMPLE_1_SECOND_BUDGET, 8),
    ),
    PrintedValue(
        "Example 1: that delta at epsilon = 6", "4.0e-6", lambda: as_printed.delta(EXAMPLE_1_SECOND_BUDGET, 6)
    ),
    PrintedValue(
        "Example 3: its T = 195 is 183 for K = 25,000", "183", lambda: len(grown(16, 1.3216327772100012, 25_000))
    ),
    PrintedValue("Example 3: sqrt(193) * 8, printed as 112", "111.1", lambda: math.sqrt(193) * 8),
    PrintedValue("Main text: 1.348 is N q of an earlier pass", "1.348", lambda: 1e4 * (0.12819685818649007 / 2.5) ** 3),
    PrintedValue("Example 4: sigma / budget with r0/5, as printed", "2.57106713", printed_example_4_factor),
    PrintedValue(
        "Example 4: with r0/8, as it should be", "2.5687", lambda: 8 / as_printed.budget(8, 0.0247 / 8, 0.20727889913)
    ),
    PrintedValue("Example 4: its delta 6.2e-5 with the true T", "1.4e-3", true_example_4_delta),
]

TIGHT = [
    PrintedValue("Example 3, sigma = 8: epsilon at delta 5.5e-8", "0.1145", lambda: tight(EXAMPLE_3, 10_000, 8.0, DELTA)),
    PrintedValue("constant 16, 1,563 rounds: sigma for (1, 5.5e-8)", "0.837", lambda: noise((16,) * 1563, 0.84)),
    PrintedValue("constant 16: aggregated noise", "33.1", lambda: math.sqrt(1563) * noise((16,) * 1563, 0.84)),
    PrintedValue("constant 136.6, 183 rounds: sigma", "1.291", lambda: noise((136,) * 71 + (137,) * 112, 1.3)),
    PrintedValue("constant 136.6: aggregated noise", "17.47", lambda: math.sqrt(183) * noise((136,) * 71 + (137,) * 112, 1.3)),
    PrintedValue("constant 460, 55 rounds: aggregated noise", "15.2", lambda: math.sqrt(55) * noise((460,) * 55, 2.0)),
    PrintedValue("constant 5,000, 5 rounds: aggregated noise", "13.1", lambda: math.sqrt(5) * noise((5000,) * 5, 5.8)),
    PrintedValue("Example 4: its epsilon = 2 over the tight one", "69",
        lambda: 2 / tight(grown(16, 0.023831640625, 125_000), 25_000, 8.0, 6.2413e-5)),
    PrintedValue("Example 5: its epsilon = 2 over the tight one", "5.7",
        lambda: 2 / tight(grown(16, 1.8887430727901684, 125_000), 25_000, 8.0, 8.567e-22)),
]  # fmt: skip
