"""What a report tells, as plain data: whoever has a run fills it in."""

from dataclasses import dataclass
from typing import Any

from crescendo.core.arrays import Array


@dataclass(frozen=True, eq=False)
class Lane:
    """One client on the timeline: (start, end) in virtual seconds; ``rounds`` says which round each piece of work was."""

    name: str
    work: list[tuple[float, float]]
    rounds: list[int]
    waits: list[tuple[float, float]]
    away: list[tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Spending:
    """The privacy of a run: epsilon of each client after each of ``rounds``, and the noise beside that of other schedules."""

    rounds: list[int]
    courses: dict[str, list[float]]
    stated: float | None
    says: str
    clients: list[list[str]]  # name, declared records, epsilon, by Renyi divergence
    noise: list[list[str]]  # schedule, rounds, sigma, aggregated noise
    conditions: list[list[str]]  # name, left, right, verdict
    notes: list[str]


@dataclass(frozen=True, eq=False)
class Story:
    title: str
    subtitle: str
    headline: list[tuple[str, str, str]]  # label, value, what it means
    metrics: list[dict[str, Any]]  # a row per measured model, as in metrics.jsonl
    sizes: Array  # gradients of every round
    steps: Array  # step size at the start of every round
    constant: int  # the size that constant rounds would have
    lanes: list[Lane]
    lanes_left_out: int
    broadcasts: Array  # virtual seconds
    staleness: Array  # rows of (t, delay used, delay allowed)
    bound: str  # what the delay is held against
    savings: list[tuple[str, str, str, str]]  # what, this run, constant rounds, in words
    conditions: list[tuple[str, str, str, str, str, bool]]  # name, round, left, relation, right, holds
    notes: list[str]
    config: str
    privacy: Spending | None = None
