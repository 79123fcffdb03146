"""Story: the content of a run's report as plain data, made from the result."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Self

import numpy as np

from crescendo.core.arrays import Array
from crescendo.privacy.guarantee import Guarantee
from crescendo.privacy.protection import Withheld
from crescendo.report import waiting
from crescendo.report.inequalities import schedule_row
from crescendo.report.lanes import Lanes
from crescendo.report.measures import Measure, chosen_rows, measures_of
from crescendo.report.numbers import digits, level, share, size, times
from crescendo.report.privacy_story import PrivacyStory, privacy_story
from crescendo.report.verdicts_in_words import alerts, delay_in_words, schedule_verdict


@dataclass(frozen=True, eq=False)
class Story:
    """The content of a run's page."""

    title: str  # the run's name, or that of its data
    subtitle: str
    headline: list[tuple[str, str, str]]  # label, value, meaning
    alerts: list[str]  # shown at the top
    metrics: list[dict[str, Any]]  # the measured models to draw, as in metrics.jsonl
    measured: int  # the number of measured models
    measures: list[Measure]
    reference_notes: list[str]  # the meaning of each level to compare with
    sizes: Array  # gradients of every round
    steps: Array  # step size at the start of every round
    constant: tuple[int, int]  # the size and the number of constant rounds
    constant_why: str  # the reason for that size
    lanes: Lanes
    why_waiting: str | None  # the cause and the remedy; None if clients hardly waited
    broadcasts: Array  # virtual seconds
    staleness: Array  # rows of (t, delay used, delay allowed)
    bound: str  # the rule that limits the delay
    savings: list[tuple[str, str, str, str]]  # name, this run, constant rounds, in words; empty if the run went wrong
    verdict: str  # on the certificate
    delay: str  # the largest age of a model
    conditions: list[list[str]]  # name, requirement, inequality, verdict
    notes: list[str]
    config: str
    privacy: PrivacyStory | None = None
    withheld: Sequence[str] = ()  # the reasons why no epsilon is stated

    @classmethod
    def of(cls, result: Any) -> Self:
        """Make the story of a result."""
        prepared, terms = result.prepared, result.prepared.terms
        config, certificate = prepared.config, prepared.certificate
        before = prepared.sizes.prefix(terms.rounds)
        references, rows = result.references, chosen_rows(result.metrics)
        lanes, wrong = Lanes.of(result.trace.tables, prepared.names), alerts(result)
        saved = [] if wrong else _savings(result)
        return cls(
            title=PurePath(result.run or prepared.dataset.name).name,
            subtitle=(
                f"{PurePath(prepared.dataset.name).name}: {terms.clients:,} clients, "
                f"{len(prepared.dataset.train):,} training records, "
                f"{split_in_words(config.clients.split)}, {config.timing.preset} timing, seed {config.run.seed}"
                + (f", labels {prepared.label_mapping}" if prepared.label_mapping is not None else "")
            ),
            headline=_headline(result, lanes, bool(saved)),
            alerts=wrong,
            metrics=rows,
            measured=len(result.metrics),
            measures=measures_of(rows, references),
            reference_notes=references.notes,
            sizes=np.diff(before),
            steps=np.asarray([float(terms.steps.at(int(t))) for t in before[:-1]]),
            constant=(result.constant.size, result.constant.rounds),
            constant_why=result.constant.why,
            lanes=lanes,
            why_waiting=waiting.why_waiting(result, lanes.waiting),
            broadcasts=result.trace.tables["broadcasts"]["made_at"],
            staleness=_staleness(result),
            bound=_bound(result),
            savings=saved,
            verdict=schedule_verdict(result),
            conditions=[schedule_row(one) for one in certificate.conditions],
            delay=delay_in_words(result),
            notes=[*certificate.notes, *prepared.agreement.stability.notes()],
            config=without_folders(config.to_toml()),
            privacy=privacy_story(result) if isinstance(prepared.privacy, Guarantee) else None,
            withheld=prepared.privacy.sentences() if isinstance(prepared.privacy, Withheld) else [],
        )


def split_in_words(rule: str) -> str:
    """
    >>> split_in_words("iid"), split_in_words("column:carrier")
    ('split at random', 'split by carrier')
    """
    words = {"iid": "split at random", "label": "split by label", "dirichlet": "Dirichlet split"}
    return words.get(rule, f"split by {rule.removeprefix('column:')}")


def without_folders(toml: str) -> str:
    """Return a run file without the folders in its paths, since a page may be sent to others; ``config.toml`` has them.

    >>> without_folders('source = "/home/ann/flats.csv"'), without_folders('kind = "softmax"')
    ('source = "flats.csv"', 'kind = "softmax"')
    """
    return re.sub(r'"(?:/|[A-Za-z]:)[^"\n]*[/\\]([^"/\\\n]+)"', r'"\1"', toml)


def _headline(result: Any, lanes: Lanes, grows: bool) -> list[tuple[str, str, str]]:
    constant = result.constant
    ours, theirs = result.bytes_up + result.bytes_down, constant.bytes_up + constant.bytes_down
    rows = [
        *_learned(result),
        ("Rounds", f"{result.rounds:,}", f"{constant.rounds:,} constant ones" if grows else "completed"),
        ("Traffic", size(ours), f"{size(theirs)} in constant rounds" if grows else "both ways, all clients"),
        (
            "Gradients",
            f"{result.gradients:,}",
            f"over all clients, {result.broadcasts:,} broadcast{'s' if result.broadcasts != 1 else ''}",
        ),
        ("Waiting", share(lanes.waiting), waiting.headline(lanes.waiting, lanes.away)),
        ("Virtual time", f"{result.virtual_seconds:,.0f} s", "on the simulated clock"),
    ]
    made = result.prepared.privacy
    if isinstance(made, Withheld):
        rows.insert(1, ("Epsilon", "withheld", "entries were read off the records; see below"))
    elif made is not None:
        stated = f"of {made.stated:g} stated, " if made.stated is not None else ""
        rows.insert(1, ("Epsilon", digits(made.epsilon), f"{stated}delta {made.delta:g}; simulated"))
    return rows


def _learned(result: Any) -> list[tuple[str, str, str]]:
    """Return the first card: the model's score."""
    last = result.metrics[-1]
    for key, words in (("accuracy", "Accuracy"), ("r2", "R²"), ("rmse", "Error (RMSE)")):
        if last.get(key) is not None:
            return [(words, level(last[key]), f"test part; loss {level(result.loss)}")]
    return [("Loss", level(result.loss), "training records")]


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


def _staleness(result: Any) -> Any:
    """Return (t_glob, t_delay, the delay allowed) at the last slot of every segment, in the order of t_glob."""
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
        return "A gradient's model may lack as many updates as tau(t) allows."
    ahead = (
        "in step with" if wait.rounds == 0 else f"at most {wait.rounds} round{'s' if wait.rounds > 1 else ''} ahead of"
    )
    return (
        f"Clients wait by rounds: they stay {ahead} the newest broadcast. The line is the delay that this rule implies."
    )
