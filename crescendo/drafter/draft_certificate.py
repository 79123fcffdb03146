"""Certificate of a draft: the cost of counting a table, proved before a record is read.

Theory of operation
-------------------
A draft asks for c histograms, c known in advance. In each of them a record is counted in one place at most, by its
own cell and by earlier releases, so adding or removing a record moves all counts together by at most sqrt(c). Every
count gets Gaussian noise of deviation sigma sqrt(c), exactly (`crescendo.privacy.mechanisms.gaussian`). Later
histograms depend on earlier ones, as rounds of training do, and Gaussian mechanisms that follow each other compose as
one of the joint sensitivity (Dong, Roth and Su 2022, corollary 3.3): all of it is one Gaussian round of rate 1.

Where places are known beforehand (octaves of numbers, missing, dates), all counts are released, those of empty places
too. A place that only the records know, the text of a cell, is released if its noisy count exceeds a threshold T. Let
D' have one record more than D, with texts that are new to some columns, m at most. Let G do on D' the same as the
draft, but never release these new texts: between D and G the draft is the Gaussian mechanism above. The draft on D'
is G unless a new text, whose count is 1, passes T. The chance of that is at most

    b = m P(1 + sigma sqrt(c) Z > T - g),    g the step of the released numbers,

so that P(D' in S) <= P(G in S) + b and P(D' in S) >= (1 - b) P(G in S) for any set S of outcomes of the draft and of
all other releases. The first adds b to delta in one direction. In the other let S be where the loss of D against G
exceeds epsilon + ln(1 - b), the set that costs most. There P(D in S) - exp(epsilon) P(D' in S) is at most P(D in S) -
exp(epsilon) P(G in S), which the Gaussian mechanism bounds, plus b exp(epsilon) P(G in S), and this is at most b / (1
- b) P(D in S). So ``failure`` = b / (1 - b), as a part of delta, covers both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from crescendo.drafter.draft_request import DraftRequest, Questions
from crescendo.errors import Refused, UsageError
from crescendo.privacy.mechanisms.certificate import printed
from crescendo.privacy.mechanisms.gaussian import STOPPED, grid
from crescendo_dp.accounting.epsilon import account
from crescendo_dp.directed_rounding import down, noise_up
from crescendo_dp.events import Counted, PoissonGaussian
from crescendo_dp.ledger.book import tight
from crescendo_dp.planning.calibration import least_sigma

_FOR_TEXTS = 0.5  # the share of delta for new texts
_MOST_NUMBERS = 2.0**60  # numbers with noise in one draft
_SEEN = 4.0  # deviations from which a count is called visible in messages

PROVENANCE = "bought by a charged release"


@dataclass(frozen=True)
class DraftCertificate:
    """All quantities on which the epsilon of a draft depends.

    ``failure`` is the part of delta that is not Gaussian noise: a text passing the threshold by noise alone, and
    noise whose bits were stopped.
    """

    epsilon: float
    delta: float
    failure: float
    sigma: float
    histograms: int  # c
    texts: int  # m
    adjacency: str = "add or remove one record, which is a line of the table"
    provenance: str = PROVENANCE

    @classmethod
    def of(cls, request: DraftRequest, questions: Questions) -> DraftCertificate:
        """Return the least noise for the request's epsilon; refuse, naming an epsilon that passes, if no count could
        be visible.

        >>> request = DraftRequest(1.0, 1e-6)
        >>> made = DraftCertificate.of(request, request.questions(["age", "city", "died"], "a table"))
        >>> made.histograms, made.texts, round(made.sigma, 2), round(made.noise, 1), round(made.threshold, 1)
        (8, 3, 4.37, 12.4, 64.1)
        """
        if not questions.histograms:
            raise Refused("everything is stated, so there is nothing to count or to pay for: leave out --epsilon")
        made = cls._with_noise_for(request.epsilon, request.delta, questions)
        if request.records is not None and made.least > request.records:
            passes = cls._least_epsilon(request, questions)
            advice = "" if passes is None else f"epsilon = {printed(passes, 2, up=True)} would pass, or "
            raise Refused(
                f"at epsilon {request.epsilon:g} each of the {made.histograms} counts of a record gets noise of "
                f"{made.noise:.3g}, in which {request.records:,} records cannot be seen; {advice}state more columns with "
                f"--range or --values"
            )
        return made

    @classmethod
    def _with_noise_for(cls, epsilon: float, delta: float, questions: Questions) -> DraftCertificate:
        stopped = _MOST_NUMBERS * STOPPED
        failure = (_FOR_TEXTS * delta if questions.texts else 0.0) + stopped
        if not failure < delta:
            raise Refused(
                f"--delta {delta:g} leaves no room for rare events; {printed(2 * stopped, 2, up=True)} would pass"
            )
        rest = down(delta, failure)

        def epsilon_of(sigma: float) -> float:
            return account([PoissonGaussian(1.0, sigma)], rest, state_error=False).epsilon

        try:
            sigma = noise_up(least_sigma(epsilon_of, epsilon, start=max(0.1, 5 / epsilon)))
        except UsageError as error:
            raise Refused(f"a draft at epsilon {epsilon:g} cannot be certified: {error}") from None
        return cls(epsilon, delta, failure, sigma, questions.histograms, questions.texts)

    @classmethod
    def _least_epsilon(cls, request: DraftRequest, questions: Questions) -> float | None:
        """Return the least epsilon, in steps of a tenth of an octave, at which the stated number of records would be visible."""
        assert request.records is not None
        for step in range(1, 120):
            epsilon = request.epsilon * 2 ** (step / 10)
            if cls._with_noise_for(epsilon, request.delta, questions).least <= request.records:
                return epsilon
        return None

    @property
    def noise(self) -> float:
        """The standard deviation of the noise of every count, rounded up."""
        return math.nextafter(self.sigma * math.sqrt(self.histograms) * (1 + 2.0**-50), math.inf)

    @property
    def threshold(self) -> float:
        """The threshold that a text's noisy count must exceed to be released; rounded up, infinite if no text is counted."""
        from scipy.special import ndtri

        if not self.texts:
            return math.inf
        chance = down(self.failure, _MOST_NUMBERS * STOPPED) * (1 - 2 * self.failure) / self.texts
        away = -float(ndtri(chance)) * (1 + 1e-9) + 1e-9
        return math.nextafter((1 + self.noise * away + grid(self.noise)) * (1 + 2.0**-50), math.inf)

    @property
    def least(self) -> float:
        """The approximate number of records that make a place visible."""
        return self.threshold if self.texts else _SEEN * self.noise

    @property
    def event(self) -> PoissonGaussian:
        """The event charged to the ledger."""
        return PoissonGaussian(1.0, self.sigma)

    @property
    def events(self) -> Counted:
        return ((self.event, 1),)

    def spent(self) -> float:
        """The epsilon at ``delta``, by the accountant; never above the requested one."""
        return tight(self.events, down(self.delta, self.failure))

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "failure": self.failure,
            "sigma": self.sigma,
            "histograms": self.histograms,
            "texts": self.texts,
            "noise": self.noise,
            "threshold": self.threshold if self.texts else None,
            "adjacency": self.adjacency,
            "provenance": self.provenance,
        }
