"""What a report tells, as plain data, and how it follows from the result of a run."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from crescendo.core.arrays import Array
from crescendo.privacy.planning.guarantee import Guarantee
from crescendo.report.numbers import number, size, times

_MOST_LANES = 40
_MOST_COURSES = 8


@dataclass(frozen=True, eq=False)
class _Lane:
    """One client on the timeline: (start, end) in virtual seconds; ``rounds`` says which round each piece of work was."""

    name: str
    work: list[tuple[float, float]]
    rounds: list[int]
    waits: list[tuple[float, float]]
    away: list[tuple[float, float]]


@dataclass(frozen=True, eq=False)
class _Spending:
    """The privacy of a run: epsilon of each client after each of ``rounds``, and the noise beside that of other schedules."""

    rounds: list[int]
    courses: dict[str, list[float]]
    stated: float | None
    says: str
    clients: list[list[str]]  # name, declared records, epsilon, by Renyi divergence
    noise: list[list[str]]  # schedule, rounds, sigma, aggregated noise
    conditions: list[list[str]]  # name, left, right, verdict
    means: list[str]  # what the largest epsilon means
    attacks: tuple[list[float], list[float]]  # false positives, and the most true positives of any attack
    notes: list[str]


@dataclass(frozen=True, eq=False)
class Story:
    """All that a page is made of."""

    title: str
    subtitle: str
    headline: list[tuple[str, str, str]]  # label, value, what it means
    metrics: list[dict[str, Any]]  # a row per measured model, as in metrics.jsonl
    sizes: Array  # gradients of every round
    steps: Array  # step size at the start of every round
    constant: int  # the size that constant rounds would have
    lanes: list[_Lane]
    lanes_left_out: int
    broadcasts: Array  # virtual seconds
    staleness: Array  # rows of (t, delay used, delay allowed)
    bound: str  # what the delay is held against
    savings: list[tuple[str, str, str, str]]  # what, this run, constant rounds, in words
    conditions: list[tuple[str, str, str, str, str, bool]]  # name, round, left, relation, right, holds
    notes: list[str]
    config: str
    privacy: _Spending | None = None

    @classmethod
    def of(cls, result: Any) -> Self:
        """The story of a result."""
        prepared, terms = result.prepared, result.prepared.terms
        config = prepared.config
        before = prepared.sizes.prefix(terms.rounds)
        certificate = prepared.certificate
        return cls(
            title=prepared.dataset.name,
            subtitle=(
                f"{terms.clients:,} clients, {len(prepared.dataset.train):,} training records, {_split(config.clients.split)}, "
                f"{config.timing.preset} timing, seed {config.run.seed}"
            ),
            headline=_headline(result),
            metrics=result.metrics,
            sizes=np.diff(before),
            steps=np.asarray([float(terms.steps.at(int(t))) for t in before[:-1]]),
            constant=result.constant.size,
            lanes=[_lane(result, c) for c in range(min(terms.clients, _MOST_LANES))],
            lanes_left_out=max(0, terms.clients - _MOST_LANES),
            broadcasts=result.trace.tables["broadcasts"]["made_at"],
            staleness=_staleness(result),
            bound=_bound(result),
            savings=_savings(result),
            conditions=[
                (
                    c.name,
                    "" if c.round is None else f"{c.round:,}",
                    f"{c.left:,.6g}",
                    c.relation,
                    f"{c.right:,.6g}",
                    c.holds,
                )
                for c in certificate.conditions
            ],
            notes=[*certificate.notes, *prepared.agreement.stability.notes()],
            config=config.to_toml(),
            privacy=_spending(result) if prepared.privacy is not None else None,
        )


def _spending(result: Any) -> _Spending:
    """Epsilon by round, who spends what, what the noise cost, and the noise that other schedules would take."""
    made: Guarantee = result.prepared.privacy
    names: tuple[str, ...] = result.prepared.names
    shown = range(min(len(names), _MOST_COURSES))
    courses = {names[c]: made.course(c) for c in shown}
    certificate, others, means = made.certificate, made.compared_to(), made.meaning()
    accused = [0.0, *np.logspace(-4, 0, 81).tolist()]
    rows = [("this run", certificate.terms.rounds, certificate.sigma, made.aggregated_noise)]
    noise = [[name, f"{rounds:,}", f"{sigma:.3g}", f"{total:.3g}"] for name, rounds, sigma, total in rows]
    constant, paper = others["constant"], others["paper"]
    form = (f"{constant['rounds']:,}", f"{constant['sigma']:.3g}", f"{constant['aggregated_noise']:.3g}")
    noise.append([f"constant rounds of {constant['size']:,} per client", *form])
    if "why" in paper:
        noise.append([f"the paper's recipe: {paper['why']}", "", "", ""])
    else:
        form = (f"{paper['rounds']:,}", f"{paper['sigma']:.3g}", f"{paper['aggregated_noise']:.3g}")
        noise.append(["the paper's recipe", *form])
    return _Spending(
        rounds=courses[names[0]][0],
        courses={name: epsilons for name, (_, epsilons) in courses.items()},
        stated=made.stated,
        says=(
            f"Mechanism {certificate.mechanism}, delta {made.delta:g}: {certificate.adjacency}. The curves bound "
            f"what was spent from above at every round; the table has the tight figure for the whole run."
        ),
        clients=[
            [names[c], f"{certificate.records[c]:,}", f"{spent.epsilon:.4f}", f"{spent.rdp_epsilon:.4f}"]
            for c, spent in enumerate(made.spent[:_MOST_LANES])
        ],
        noise=noise,
        conditions=[[one.name, f"{one.left:.4g}", f"{one.right:.4g}", "holds"] for one in certificate.conditions],
        means=[f"For {names[made.costliest]}, which spends most:", *_sentences(means.sentences())],
        attacks=(accused, means.drawn(accused)),
        notes=[*_cost_of_noise(result), *_sentences(made.cautions()), made.disclaimer],
    )


def _sentences(found: list[str]) -> list[str]:
    return [f"{says[:1].upper()}{says[1:]}." for says in found]


def _cost_of_noise(result: Any) -> list[str]:
    twin = result.noise_free
    if twin is None or result.accuracy is None:
        return []
    auc = f" (AUC {number(result.metrics[-1]['auc'])} and {number(twin['auc'])})" if "auc" in twin else ""
    return [
        f"Accuracy {number(result.accuracy)} with the noise, {number(twin['accuracy'])} in the same run without it{auc}."
    ]


def _split(rule: str) -> str:
    words = {"iid": "split at random", "label": "split by label", "dirichlet": "Dirichlet split"}
    return words.get(rule, f"split by {rule.removeprefix('column:')}")


def _headline(result: Any) -> list[tuple[str, str, str]]:
    constant = result.constant
    ours, theirs = result.bytes_up + result.bytes_down, constant.bytes_up + constant.bytes_down
    rows = [
        ("Rounds", f"{result.rounds:,}", f"{constant.rounds:,} with constant rounds"),
        ("Traffic", size(ours), f"{size(theirs)} with constant rounds"),
        ("Gradients", f"{result.gradients:,}", f"over all clients, {result.broadcasts:,} broadcasts"),
        ("Rounds ahead", f"{result.max_rounds_ahead}", f"at most; {result.waits:,} waits"),
        ("Virtual time", f"{result.virtual_seconds:,.0f} s", "on the clients' clock"),
    ]
    if result.accuracy is not None:
        rows.insert(0, ("Accuracy", number(result.accuracy), f"test part; loss {number(result.loss)}"))
    if result.prepared.privacy is not None:
        made = result.prepared.privacy
        stated = f"of {made.stated:g} stated, " if made.stated is not None else ""
        rows.insert(1, ("Epsilon", f"{made.epsilon:.3f}", f"{stated}delta {made.delta:g}; simulated"))
    if result.accuracy is None:
        rows.insert(0, ("Loss", number(result.loss), "training data"))
    return rows


def _savings(result: Any) -> list[tuple[str, str, str, str]]:
    constant = result.constant
    if constant.rounds == result.rounds:  # the rounds did not grow
        return []
    pairs = [
        ("rounds", result.rounds, constant.rounds, "{:,}".format),
        ("bytes sent by clients", result.bytes_up, constant.bytes_up, size),
        ("bytes received by clients", result.bytes_down, constant.bytes_down, size),
    ]
    return [(name, form(ours), form(theirs), times(theirs, ours)) for name, ours, theirs, form in pairs]


def _lane(result: Any, c: int) -> _Lane:
    tables = result.trace.tables
    segments = tables["segments"]
    mine = segments["client"] == c
    work: list[tuple[float, float]] = []
    rounds: list[int] = []
    for i, start, end in zip(
        segments["round"][mine].tolist(), segments["began_at"][mine].tolist(), segments["ended_at"][mine].tolist(), strict=True
    ):  # fmt: skip
        if rounds and rounds[-1] == i and abs(work[-1][1] - start) <= 1e-9 * max(1.0, abs(start)):
            work[-1] = (work[-1][0], end)  # a broadcast cut the work in two; to the eye it is one
        else:
            work.append((start, end))
            rounds.append(i)
    return _Lane(result.prepared.names[c], work, rounds, _spans(tables["waits"], c), _spans(tables["absences"], c))


def _spans(table: dict[str, Any], c: int) -> list[tuple[float, float]]:
    mine = table["client"] == c
    return list(zip(table["began_at"][mine].tolist(), table["ended_at"][mine].tolist(), strict=True))


def _staleness(result: Any) -> Any:
    """(t_glob, t_delay, what is allowed) at the last slot of every segment, in the order of t_glob."""
    terms, tables = result.prepared.terms, result.trace.tables
    ks = np.concatenate([[0], tables["broadcasts"]["k"]])
    segments = tables["segments"]
    rows = []
    for c, i, last, basis in zip(
        *(segments[name].tolist() for name in ("client", "round", "last", "basis")), strict=True
    ):
        t, delay = terms.clock(i, int(ks[basis + 1]), terms.share(i, c), last - 1)
        window = terms.before(i + 1) - terms.before(max(0, i - (terms.ahead or 0)))
        allowed = window if terms.tau is None else float(terms.tau(t))
        rows.append((t, delay, allowed))
    return np.array(sorted(rows), dtype=np.float64).reshape(-1, 3)


def _bound(result: Any) -> str:
    wait = result.prepared.config.schedule.wait
    if wait.rounds is None:
        return "A gradient's model may lack as many updates as tau(t) allows; dots are the end of each piece of work."
    ahead = (
        "in step with" if wait.rounds == 0 else f"at most {wait.rounds} round{'s' if wait.rounds > 1 else ''} ahead of"
    )
    return (
        f"Clients wait by rounds: they stay {ahead} the newest broadcast. The line is the delay that this rule "
        "implies; dots are the end of each piece of work."
    )
