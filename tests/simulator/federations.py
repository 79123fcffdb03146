"""Simulated federations of the tally, and what must hold of them, as plain functions of the parts under test."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import strategies as st

from crescendo.core.server import Server
from crescendo.core.terms import Terms
from crescendo.data.records import Records
from crescendo.errors import CrescendoError
from crescendo.simulator import consistency
from crescendo.simulator.consistency import Inconsistent
from crescendo.simulator.simulation import Moment, Simulation
from crescendo.simulator.timing import Constant, Crashes, Exponential, LogNormal, Timing, Uniform
from crescendo.simulator.trace import Trace
from crescendo.simulator.trace_soundness import require_sound
from crescendo.worker import Worker
from tests import paper
from tests.core.play import plain_assignment, plain_rule, plain_shares
from tests.core.strategies import seeds
from tests.core.strategies import terms as some_terms
from tests.paper import Gradient
from tests.paper_federation import paper_federation
from tests.tally import Tally, contents, first_model, step

NOTHING = Records(np.zeros((1, 1)), np.zeros(1))


@dataclass(frozen=True)
class Parts:
    worker: Any = Worker
    server: Any = Server
    simulation: Any = Simulation
    trace: Any = Trace


@dataclass(frozen=True)
class Case:
    terms: Terms
    timing: Timing
    seed: int


@dataclass(frozen=True)
class Run:
    trace: Trace
    book: list[Gradient]  # every gradient in the order computed, as its model showed itself
    moments: list[Moment]


def simulate(parts: Parts, case: Case, wire: str = "float64") -> Run:
    """The federation of this case; to stand still is a failure of the parts, since all schedules here are live."""
    terms, assignment = case.terms, plain_assignment(case.terms)
    book: list[Gradient] = []
    moments: list[Moment] = []
    model = first_model(sum(map(len, assignment)))
    rows = np.zeros(1, dtype=np.int64)
    workers = [
        parts.worker(terms, c, model, Tally(terms, c, assignment, book), NOTHING, rows, seed=case.seed, wire=wire)
        for c in range(terms.clients)
    ]
    server = parts.server(terms, model)
    simulation = parts.simulation(terms, workers, server, case.timing, case.seed, wire=wire, observe=moments.append)
    try:
        trace = simulation.run()
    except CrescendoError as error:
        raise AssertionError(f"a live schedule did not run to its end: {error}") from error
    return Run(trace, book, moments)


# -- what is drawn


def timings(clients: int, faults: bool) -> st.SearchStrategy[Timing]:
    """Any speeds, starts and latencies; with faults also repeats, losses, crashes and absences."""
    some = partial(st.floats, allow_nan=False)
    latencies = st.one_of(
        st.builds(Constant, some(0, 30)),
        st.builds(Uniform, some(0, 2), some(2, 20)),
        st.builds(Exponential, some(0.01, 20)),
        st.builds(LogNormal, some(0.01, 5), some(0.1, 2)),
    )
    each = partial(st.lists, min_size=clients, max_size=clients)
    return st.builds(
        Timing,
        speeds=each(some(0.3, 30)).map(tuple),
        starts=each(some(0, 20)).map(tuple),
        latency=latencies,
        duplicate=some(0, 0.5) if faults else st.just(0.0),
        lose=some(0, 0.6) if faults else st.just(0.0),
        resend=some(0.1, 9),
        crashes=st.one_of(st.none(), st.builds(Crashes, some(40, 90), some(0.1, 30))) if faults else st.none(),
        absent_after=st.one_of(st.none(), some(0, 20)),
    )


@st.composite
def cases(draw: st.DrawFn, faults: bool = True) -> Case:
    terms = draw(some_terms())
    return Case(terms, draw(timings(terms.clients, faults)), draw(seeds))


@st.composite
def plain_cases(draw: st.DrawFn) -> Case:
    """Constant latency, no faults: the literal federation can follow."""
    terms = draw(some_terms())
    each = st.lists(st.floats(0.3, 3), min_size=terms.clients, max_size=terms.clients).map(
        lambda values: tuple(value * (1.0 + 0.0171 * c) for c, value in enumerate(values))
    )
    return Case(terms, Timing(speeds=draw(each), starts=draw(each), latency=Constant(draw(st.floats(0.01, 9)))), 0)


# -- what must hold


def excluded_pairs(trace: Trace) -> set[tuple[int, int]]:
    table = trace.tables["excluded"]
    return set(zip(table["round"].tolist(), table["client"].tolist(), strict=True))


def gradients_of(trace: Trace, terms: Terms) -> list[Gradient]:
    """Every gradient of a trace in the order recorded, with what its model contained by the trace's own account, literally."""
    assignment, tables = plain_assignment(terms), trace.tables
    updates = list(zip(tables["updates"]["round"].tolist(), tables["updates"]["client"].tolist(), strict=True))
    counts, ks = tables["broadcasts"]["applied"].tolist(), tables["broadcasts"]["k"].tolist()
    columns = [tables["segments"][name].tolist() for name in ("client", "round", "first", "last", "basis")]
    found = []
    for c, i, first, last, basis in zip(*columns, strict=True):
        mine = {(j, owner) for j, owner in updates if owner == c and j < i}  # whatever was sent arrives in the end
        inside = {*updates[: counts[basis]]} if basis >= 0 else set()
        held = paper.labels(assignment, inside | mine)
        for h in range(first, last):
            own = {paper.rho(assignment, c, i, earlier) for earlier in range(h)}
            found.append(Gradient(c, i, h, ks[basis] if basis >= 0 else 0, frozenset(held | own)))
    return found


def reaches_the_end(parts: Parts, case: Case) -> None:
    """A live schedule ends with every round in, whatever the timing; what is missing was declared absent or void."""
    run = simulate(parts, case)
    assert run.trace.rounds == case.terms.rounds
    assignment = plain_assignment(case.terms)
    lacking = set(range(sum(map(len, assignment)))) - contents(run.trace.model)
    assert lacking <= paper.labels(assignment, excluded_pairs(run.trace)), f"never applied: {lacking}"
    assert run.trace.gradients == len(contents(run.trace.model)), "gradients are the slots that are in the model"
    assert [moment.k for moment in run.moments] == sorted({moment.k for moment in run.moments})
    assert (run.moments[0].k, run.moments[-1].k) == (0, case.terms.rounds)


def keeps_the_delay_bound(parts: Parts, case: Case) -> None:
    """t_delay <= tau(t_glob), or i <= k + d, for every gradient; and the trace's maxima say how near it came."""
    trace, terms, shares = simulate(parts, case).trace, case.terms, plain_shares(case.terms)
    ahead, used = 0, 0.0
    for g in gradients_of(trace, terms):
        ahead = max(ahead, g.round - g.k)
        if terms.ahead is not None:
            assert g.round <= g.k + terms.ahead, f"too far ahead: {g}"
        if terms.tau is not None:
            bound = float(terms.tau(max(paper.t_glob(shares, g.client, g.round, g.h), 0)))
            delay = paper.t_delay(shares, g.client, g.round, g.h, g.k)
            assert delay <= bound, f"delay bound broken: {g}"
            used = max(used, delay / bound)
    assert trace.max_rounds_ahead == ahead, f"max_rounds_ahead is {trace.max_rounds_ahead}, not {ahead}"
    assert (
        trace.max_delay_used == (None if terms.tau is None else used) or abs((trace.max_delay_used or 0) - used) < 1e-12
    )


def tells_the_truth(parts: Parts, case: Case) -> None:
    """What the trace says that each gradient's model contained is what the model showed."""
    run = simulate(parts, case)
    said = gradients_of(run.trace, case.terms)
    shown = [(g.client, g.round, g.h, g.contains) for g in run.book]
    assert [(g.client, g.round, g.h, g.contains) for g in said] == shown, "the trace tells another story"


def required_delay(terms: Terms) -> Any:
    """tau, or under the rule of rounds the delay that the rule implies: the updates of rounds below i - d are in."""
    if terms.tau is not None:
        return terms.tau
    assert terms.ahead is not None
    ahead, sums = terms.ahead, [terms.before(i) for i in range(terms.rounds + 1)]

    def tau(t: float) -> float:
        i = max(i for i in range(terms.rounds) if sums[i] <= t)
        return t - sums[max(i - ahead, 0)]

    return tau


def rounded_down(tau: Any) -> Any:
    return lambda t: math.floor(tau(t))


def is_consistent(parts: Parts, case: Case) -> None:
    """[thmalg], by the models' own contents and by the trace's check."""
    run, assignment = simulate(parts, case), plain_assignment(case.terms)
    require_sound(run.trace, case.terms)
    excluded = paper.labels(assignment, excluded_pairs(run.trace))
    found = paper.first_inconsistent(run.book, assignment, required_delay(case.terms), excluded)
    assert found is None, f"inconsistent: (gradient, missing label) = {found}"
    assert consistency.check(run.trace, case.terms) == len(run.book), "every gradient is checked"


def finds_what_the_literal_check_finds(check: Any, case: Case) -> None:
    """On traces altered so that a model was older than it was, the check refuses exactly those that the literal one refuses.

    Where tau is no whole number, "the updates up to t - tau(t) - 1" may be read with tau rounded down (one update more): then
    a check may refuse what lies between the two readings.
    """
    run, assignment = simulate(Parts(), case), plain_assignment(case.terms)
    rng = np.random.default_rng(case.seed)
    excluded = paper.labels(assignment, excluded_pairs(run.trace))
    for _ in range(4):
        tables = {name: dict(columns) for name, columns in run.trace.tables.items()}
        basis = tables["segments"]["basis"].copy()
        chosen = rng.integers(len(basis))
        basis[chosen] = rng.integers(-1, basis[chosen] + 1)
        tables["segments"]["basis"] = basis
        altered = Trace(**{**vars(run.trace), "tables": tables})
        gradients, tau = gradients_of(altered, case.terms), required_delay(case.terms)
        strict = paper.first_inconsistent(gradients, assignment, rounded_down(tau), excluded)
        try:
            check(altered, case.terms)
        except Inconsistent:
            assert strict is not None, "refused, though consistent"
        else:
            literal = paper.first_inconsistent(gradients, assignment, tau, excluded)
            assert literal is None, f"passed, though inconsistent: {literal}"


def one_seed_one_trace(parts: Parts, case: Case) -> None:
    """The same case gives the same file, byte for byte, and what is read back is what was written."""
    with TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("one.npz", "two.npz")]
        for path in files:
            simulate(parts, case).trace.save(path)
        assert files[0].read_bytes() == files[1].read_bytes(), "the same seed gave another trace"
        again = parts.trace.load(files[0])
        again.save(files[1])
        assert files[0].read_bytes() == files[1].read_bytes(), "another trace after load(save())"


def is_the_literal_federation(parts: Parts, case: Case) -> None:
    """Without chance and faults: models, broadcasts and the contents of every gradient's model are those of the literal run."""
    terms, assignment = case.terms, plain_assignment(case.terms)
    latency = case.timing.latency.draw(np.random.default_rng())
    told = paper_federation(
        first_model(sum(map(len, assignment))),
        plain_shares(terms),
        plain_rule(terms),
        partial(step, assignment),
        case.timing.speeds,
        case.timing.starts,
        latency,
        contents,
    )
    if told.closest < 1e-9:
        return  # two events at what may or may not be one instant
    run = simulate(parts, case)
    np.testing.assert_allclose(run.trace.model, told.model, rtol=1e-12, atol=1e-12)
    assert [moment.k for moment in run.moments[1:]] == [k for _, k, _ in told.broadcasts]
    for moment, (seconds, _, model) in zip(run.moments[1:], told.broadcasts, strict=True):
        assert abs(moment.seconds - seconds) < 1e-9 * (1 + seconds), "a broadcast at another time"
        np.testing.assert_allclose(moment.model, model, rtol=1e-12, atol=1e-12)
    for c in range(terms.clients):
        ours = [(g.round, g.h, g.contains) for g in run.book if g.client == c]
        theirs = [(g.round, g.h, g.contains) for g in told.gradients if g.client == c]
        assert ours == theirs, f"client {c} computed on other models"
