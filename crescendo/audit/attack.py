"""The attacks on one client, one after the other, and their report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from crescendo.audit.check import Check
from crescendo.audit.checks import CHECKS
from crescendo.audit.driving import literal_certificate
from crescendo.audit.driving.evidence import Draws, Heard, Noise, Words
from crescendo.audit.driving.large_draws import LargeDraws
from crescendo.audit.driving.lead import Faults
from crescendo.audit.driving.subject import Sources, Subject
from crescendo.audit.findings import DETERMINISTIC, Finding, Report, Row
from crescendo.audit.lower_bounds import Cost, Scores, Shift
from crescendo.audit.scores import Tested, combined
from crescendo.audit.worst_cases.charges import charges_test
from crescendo.audit.worst_cases.edges import LEAST_FOR_EDGES, probe_edges, probe_lengths
from crescendo.audit.worst_cases.exactness import probe_exactness
from crescendo.audit.worst_cases.fuzz import Fuzz
from crescendo.audit.worst_cases.gone_on import resumed_test
from crescendo.audit.worst_cases.memory import probe_memory
from crescendo.audit.worst_cases.refusals import probe_refusals
from crescendo.audit.worst_cases.sent_again import Opener, outbox_test
from crescendo.audit.worst_cases.sources import probe_source
from crescendo_dp.black_box.epsilon_bounds import clopper_pearson, scale_bounds
from crescendo_dp.events import PoissonGaussian

_FALSE_ALARMS = 1e-4  # of the whole audit; slightly less is distributed, since Šidák's rule exceeds Bonferroni's
# For a model of fewer than NARROW numbers, noise is measured on one of about WIDE. A short audit takes a narrower one: its checks
# need several runs to compare.
NARROW, WIDE, LESS_WIDE, _SHORT = 64, 384, 150, 200
_NUMBERS = 768  # noise numbers of every source, per run
_LEAST_RELEASES, _MOST_RELEASES = 2, 6  # releases for these numbers, per run
_OTHER_SOURCES = 4  # factor by which later sources get fewer releases of the narrow model: all sources share the code
_MOST_ROUNDS = 100  # rounds whose noise and draws are examined one by one
_MOST_RECORDS = 30_000  # in a draw
_PARTS, _FINE = 4, 40_000  # the parts of a step, and the resolution of its progress
_KILLS = 4  # tries per kill in the middle of a round
_WORST_RATIO = 1 + 1e-5  # rounding can raise a ratio of 1 to this
_MOST_CARRIED = 1e-4  # of the sensitivity, between rounds whose releases were made equal
_NEAR = 1e-12  # tolerance for the certificate's numbers, computed again from the terms
_LEAST_SCALE = 1e-200  # below it, and above its inverse, floats lose bits
_SHIFT = ("shift of the mean", "a record that moves it too far")
_EPSILON = ("epsilon", "a bound above what is claimed")


@dataclass
class Attack:
    """One client, its sources, and its claimed epsilon."""

    subject: Subject
    sources: Mapping[str, Sources]
    claimed: float
    delta: float
    confidence: float
    cost: Cost
    seed: int
    least: Cost | None = None  # a lower bound on the cost of events, computed by the audit
    faults: Faults = field(default_factory=Faults)

    def report(
        self,
        runs: int,
        tries: int,
        threshold_runs: int,
        outbox: Opener | None,
        progress: Callable[[int, int], None],
    ) -> Report:
        steps = 3 + len(self.sources)
        rng = np.random.Generator(np.random.Philox(self.seed))
        rows: list[Row] = []
        noise: dict[str, Noise] = {}
        draws: dict[str, Draws] = {}
        for done, (name, sources) in enumerate(self.sources.items()):
            heard = _stepwise(progress, done, steps)
            noise[name], draws[name], found = self._random(
                replace(self.subject, sources=sources), name, rng, runs, heard
            )
            rows += found
        progress((steps - 3) * _FINE, steps * _FINE)
        self._edges(rng, tries)
        fuzz = self._fuzz(rng, tries, outbox)
        progress((steps - 2) * _FINE, steps * _FINE)
        shift, scores = self._shift(fuzz, rng, runs, threshold_runs)
        progress((steps - 1) * _FINE, steps * _FINE)
        measured = self._epsilon(noise, draws, shift, scores, 1 - self.confidence)
        rows += self._bounds(noise, draws, shift, scores)
        return self._report(fuzz, noise, shift, measured, scores, rows, runs)

    @property
    def level(self) -> float:
        """The false-alarm level of one share of the statistical checks; the shift and two bounds on epsilon take three more."""
        shares = sum(check.share for check in CHECKS) * len(self.sources) + 3
        return _FALSE_ALARMS * (1 - 2 * _FALSE_ALARMS) / shares

    # -- random numbers ------------------------------------------------------------------------------------------------

    def _random(
        self, subject: Subject, name: str, rng: np.random.Generator, runs: int, heard: Callable[[int], Heard]
    ) -> tuple[Noise, Draws, list[Row]]:
        """Collect evidence of one source, and return it with a row for every statistical check."""
        size = subject.objective.size
        about = WIDE if runs >= _SHORT else LESS_WIDE
        wide = subject.widened(max(1, about * subject.features // size)) if size < NARROW else None
        measured = wide or subject
        enough = _NUMBERS * runs // measured.objective.size
        releases = min(max(enough, _LEAST_RELEASES * runs), _MOST_RELEASES * runs)
        noise, faults = Noise.collected(measured, rng, releases, _MOST_ROUNDS, heard(0))
        self._take(faults)
        if wide is not None:
            narrow = runs if name == next(iter(self.sources)) else runs // _OTHER_SOURCES
            self._take(Noise.collected(subject, rng, narrow, _MOST_ROUNDS, heard(1))[1])
        seeds = max(4, 6 * runs // min(_MOST_ROUNDS, len(subject.rounds())))
        draws = Draws.collected(subject, rng, seeds, _MOST_ROUNDS, _MOST_RECORDS, heard(2))
        words = Words.collected(wide or subject, rng, seeds, _MOST_ROUNDS, heard(3))
        large = LargeDraws.collected(subject, rng)
        evidence: dict[str, Any] = {"noise": noise, "draws": draws, "words": words, "large": large}
        # checks draw as many numbers as their evidence needs: a separate generator keeps later attacks reproducible
        own = np.random.Generator(np.random.Philox(int(rng.integers(2**62))))
        rows = []
        for check in CHECKS:
            tested, level = _tested(check, evidence[check.evidence], own), self.level * check.share
            passed = tested.p > level
            rows.append(Row(check.name, check.looks_for, name, tested.p, level, check.exact, passed, tested.says))
        return noise, draws, rows

    def _take(self, faults: Faults) -> None:
        for kind, says in faults.found.items():
            self.faults.note(kind, says)

    # -- deterministic parts -------------------------------------------------------------------------------------------

    def _edges(self, rng: np.random.Generator, tries: int) -> None:
        probe_edges(self.subject, rng, tries, self.faults)
        if tries >= LEAST_FOR_EDGES:
            probe_refusals(self.subject, self.faults)
            # separate generators, so that later attacks stay reproducible
            probe_exactness(self.subject, np.random.Generator(np.random.Philox(self.seed + 2)), self.faults)
            probe_lengths(self.subject, np.random.Generator(np.random.Philox(self.seed + 3)), self.faults)
        if said := literal_certificate.denied(self.subject.certificate):
            self.faults.note("certificate", said)
        shared = self.subject.rounds()
        if said := _denied(self.subject, shared[:: max(1, len(shared) // 2000)]):
            self.faults.note("certificate", said)
        events = [_true_event(self.subject, i) for i in shared]
        true = max(self.cost(events), self.least(events) if self.least is not None else 0.0)
        if true > self.claimed:
            self.faults.note(
                "certificate", f"the terms cost epsilon {true:.4g} or more, and {self.claimed:.4g} is claimed"
            )

    def _fuzz(self, rng: np.random.Generator, tries: int, outbox: Opener | None) -> Fuzz:
        fuzz = Fuzz.search(self.subject, rng, tries)
        found = dict(fuzz.found)
        if fuzz.worst > _WORST_RATIO:
            name = fuzz.scene.name if fuzz.scene is not None else "search"
            found["sensitivity"] = (
                f"one record changes a release by {fuzz.worst:.4g} of the certified sensitivity ({name})"
            )
        if fuzz.carried > _MOST_CARRIED:
            found["carried over"] = (
                f"rounds with equal releases were followed by rounds {fuzz.carried:.2g} of the sensitivity apart: "
                f"the next start is a function of more than what was sent"
            )
        if outbox is not None:
            found |= outbox_test(self.subject, rng, outbox)
            if tries >= LEAST_FOR_EDGES:
                charges_test(self.faults)
        self._take(Faults(found))
        # a separate generator, so that later attacks stay reproducible
        own = np.random.Generator(np.random.Philox(self.seed + 1))
        resumed_test(self.subject, own, tries // _KILLS, self.faults)
        probe_memory(self.subject, own, self.faults)
        for name, sources in self.sources.items() if tries >= LEAST_FOR_EDGES else ():
            probe_source(self.subject, name, sources, own, self.faults)
        return fuzz

    # -- bounds on epsilon ---------------------------------------------------------------------------------------------

    def _shift(
        self, fuzz: Fuzz, rng: np.random.Generator, runs: int, threshold_runs: int
    ) -> tuple[Shift, Scores | None]:
        if fuzz.usual is None:
            return Shift(), None
        scene, subject = fuzz.usual[1], replace(self.subject, sources=next(iter(self.sources.values())))
        shift = Shift.measured(subject, scene, rng, runs, self.faults)
        return shift, Scores.measured(subject, scene, rng, threshold_runs) if threshold_runs else None

    def _epsilon(
        self, noise: Mapping[str, Noise], draws: Mapping[str, Draws], shift: Shift, scores: Scores | None, alpha: float
    ) -> tuple[float, float | None]:
        """Return lower bounds from shifts and from thresholds, each wrong with probability ``alpha``."""
        part = alpha / (2 * len(noise) + 1)
        values = [one.values for one in noise.values() if len(one.values)]
        high = min((scale_bounds(each, part)[1] for each in values), default=float("inf"))
        rate = min((_rate_low(one, part) for one in draws.values()), default=0.0)
        threshold = None if scores is None else scores.epsilon(alpha, self.delta)
        return self._parametric(shift.low(part), high, rate), threshold

    def _parametric(self, shift_low: float, noise_high: float, rate_low: float) -> float:
        """Return the run's cost at the measured shift, noise and rate, each at the end of its interval that lowers the cost."""
        if shift_low <= 0 or rate_low <= 0 or not math.isfinite(noise_high):
            return 0.0
        events = self.subject.certificate.events(self.subject.me)
        return self.cost(
            [PoissonGaussian(min(1.0, e.rate * rate_low), e.sigma * noise_high / shift_low) for e in events]
        )

    def _bounds(
        self, noise: Mapping[str, Noise], draws: Mapping[str, Draws], shift: Shift, scores: Scores | None
    ) -> Iterator[Row]:
        """Yield rows for the shift and for both bounds, at the level of a verdict."""
        says = f"one record moves the mean by {shift.ratio:.4g} of the certified sensitivity, give or take {shift.error:.2g}"
        yield Row(*_SHIFT, None, shift.p, self.level, False, shift.p > self.level, says)
        by_shift, by_threshold = self._epsilon(noise, draws, shift, scores, self.level)
        says = f"epsilon is {by_shift:.4g} or more, from measured shifts, and {self.claimed:.4g} is claimed"
        yield Row(
            f"{_EPSILON[0]} by shifts", _EPSILON[1], None, None, self.level, False, by_shift <= self.claimed, says
        )
        if scores is not None and by_threshold is not None:
            attacked = self._attacked(scores)
            says = f"rounds {scores.rounds} cost epsilon {by_threshold:.4g} or more, the accountant says {attacked:.4g}"
            passed = by_threshold <= min(attacked, self.claimed)
            yield Row(f"{_EPSILON[0]} by thresholds", _EPSILON[1], None, None, self.level, False, passed, says)

    def _attacked(self, scores: Scores) -> float:
        certificate, me = self.subject.certificate, self.subject.me
        return self.cost([event for i in scores.rounds if (event := certificate.event(i, me)) is not None])

    # -- the report ----------------------------------------------------------------------------------------------------

    def _report(
        self,
        fuzz: Fuzz,
        noise: Mapping[str, Noise],
        shift: Shift,
        measured: tuple[float, float | None],
        scores: Scores | None,
        rows: list[Row],
        runs: int,
    ) -> Report:
        certain = [
            Row(name, what, None, None, None, True, name not in self.faults.found, self.faults.found.get(name, ""))
            for name, what in DETERMINISTIC.items()
        ]
        rows = certain + rows
        values = np.concatenate([one.values for one in noise.values()])
        return Report(
            mechanism=self.subject.certificate.mechanism,
            client=self.subject.me,
            claimed=self.claimed,
            delta=self.delta,
            confidence=self.confidence,
            lower=max(measured[0], measured[1] or 0.0),
            lower_shift=measured[0],
            lower_threshold=measured[1],
            claimed_attacked=None if scores is None else self._attacked(scores),
            worst_ratio=fuzz.worst,
            carried_ratio=fuzz.carried,
            noise_ratio=float(np.sqrt(np.mean(np.square(values)))) if len(values) else 0.0,
            shift_ratio=shift.ratio,
            shift_error=shift.error,
            tries=fuzz.tries,
            runs=runs,
            findings=tuple(Finding(row.name, _said(row)) for row in rows if not row.passed),
            checks=tuple(rows),
            numbers=len(values),
            false_alarms=_FALSE_ALARMS,
        )


def _stepwise(progress: Callable[[int, int], None], step: int, steps: int) -> Callable[[int], Heard]:
    """Return a function that gives the listener of each part of a step.

    >>> _stepwise(lambda done, total: print(f"{done / total:.3f}"), step=1, steps=5)(2)(0.5)
    0.325
    """

    def heard(part: int) -> Heard:
        return lambda done: progress(int(_FINE * (step + (part + done) / _PARTS)), steps * _FINE)

    return heard


def _tested(check: Check, evidence: Any, rng: np.random.Generator) -> Tested:
    """Run a check. Evidence that cannot be tested fails; a client that sent nothing at all fails another check."""
    if isinstance(evidence, Noise) and not evidence.sent.any():
        return combined()
    try:
        return check.test(evidence, rng)
    except Exception as error:
        return Tested(0.0, f"what the source gave cannot be tested: {error}")


def _said(row: Row) -> str:
    return row.says if row.source is None else f"{row.says} ({row.source} source)"


def _rate_low(draws: Draws, alpha: float) -> float:
    """Return a lower bound on the drawn share of the certified rate, from the round with the highest rate."""
    counts = draws.counts.sum(axis=0)
    most = int(np.argmax(draws.rates))
    trials = draws.records * len(draws.members)
    return clopper_pearson(int(min(counts[most], trials)), trials, alpha)[0] / float(draws.rates[most])


# -- the certificate's numbers, computed again from the terms: rates, sensitivities, scales, events and conditions ------------


def _true_event(subject: Subject, i: int) -> PoissonGaussian:
    """Return the event of round i, from the terms and the scale of its noise."""
    certificate, me = subject.certificate, subject.me
    rate = certificate.terms.share(i, me) / certificate.records[me]
    clip = certificate.clip if certificate.layers is None else math.hypot(*(c for _, c in certificate.layers.layers))
    change = clip * (2.0 if _whole(subject) else _step(subject, i))
    return PoissonGaussian(min(1.0, rate), subject.scale(i) / change if change > 0 else 0.0)


def _whole(subject: Subject) -> bool:
    """Return True if the whole displacement is clipped. Then steps and L2 do not matter: one record can reverse it."""
    return subject.certificate.mechanism == "batch-clip"


def _step(subject: Subject, i: int) -> float:
    terms = subject.certificate.terms
    return float(np.max(np.abs(terms.etas(i, subject.me)), initial=0.0)) * terms.blocks


def _denied(subject: Subject, rounds: tuple[int, ...]) -> str | None:
    """Return the first contradiction between certificate and terms in ``rounds``; None if there is none."""
    certificate, me = subject.certificate, subject.me
    l2, bend = subject.objective.traits.l2, subject.objective.traits.margin
    limit = math.inf
    if certificate.mechanism == "local" and bend is not None and certificate.norm_bound is not None:
        limit = 2.0 / bend(certificate.norm_bound, certificate.clip)
    for i in rounds:
        event, true, step = certificate.event(i, me), _true_event(subject, i), _step(subject, i)
        scale, rate = subject.scale(i), certificate.rate(i, me)
        if event is None or event.rate < true.rate * (1 - _NEAR) or rate < true.rate * (1 - _NEAR):
            return f"round {i} is charged at rate {0 if event is None else event.rate:.6g}, its slots make it {true.rate:.6g}"
        if event.sigma > true.sigma * (1 + _NEAR):
            return f"round {i} is charged for noise {event.sigma:.6g} and has {true.sigma:.6g} of what one record can change"
        if event.rate > 1 or not _LEAST_SCALE < scale < 1 / _LEAST_SCALE:
            return f"round {i} has a rate of {event.rate:.4g} and noise of scale {scale:.4g}, which floats do not carry"
        if step * l2 > 1 + _NEAR and not _whole(subject):
            return f"the step of round {i} times l2 is {step * l2:.4g}: the model grows by it, and noise is lost in its rounding"
        if step > limit * (1 + _NEAR):
            return f"the step of round {i} is {step:.6g} and must be at most 2 / L_eff = {limit:.6g}"
    return None
