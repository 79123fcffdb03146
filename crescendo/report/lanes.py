"""Lanes of the timeline: when each client worked, waited and was away, with the clients that waited most first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crescendo.core.arrays import Floats, Ints
from crescendo.report.figures.plain import evenly

MOST_LANES = 60
Span = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Lane:
    """One client on the timeline: spans of (start, end) in virtual seconds; ``rounds`` has the round of each span of work."""

    name: str
    waiting: float  # the share of its time
    work: list[Span]
    rounds: list[int]
    waits: list[Span]
    away: list[Span]


@dataclass(frozen=True, eq=False)
class Lanes:
    """The lanes shown, and totals over all clients."""

    shown: list[Lane]
    clients: int
    waiting: float  # the share of all clients' time
    away: float

    @classmethod
    def of(cls, tables: dict[str, dict[str, Any]], names: Sequence[str]) -> Lanes:
        """Make lanes from a trace's tables. Of many clients, choose some evenly from the longest wait to the shortest."""
        clients = len(names)
        work, waits, away = (_spent(tables[name], clients) for name in ("segments", "waits", "absences"))
        whole = work + waits + away
        share = np.divide(waits, whole, out=np.zeros(clients), where=whole > 0)
        order = np.argsort(-share, kind="stable")
        chosen = [int(order[place]) for place in evenly(clients, MOST_LANES)]
        rows = {name: _rows(tables[name], clients) for name in ("segments", "waits", "absences")}
        lanes = [
            Lane(
                names[c],
                float(share[c]),
                *_work(tables["segments"], rows["segments"][c]),
                _spans(tables["waits"], rows["waits"][c]),
                _spans(tables["absences"], rows["absences"][c]),
            )
            for c in chosen
        ]
        total = max(float(whole.sum()), 1e-300)
        return cls(lanes, clients, float(waits.sum()) / total, float(away.sum()) / total)


def _spent(table: dict[str, Any], clients: int) -> Floats:
    """Return the total time of each client's spans."""
    return np.bincount(table["client"], table["ended_at"] - table["began_at"], minlength=clients).astype(np.float64)


def _rows(table: dict[str, Any], clients: int) -> list[Ints]:
    """Return each client's rows in their order."""
    order = np.argsort(table["client"], kind="stable")
    return np.split(order, np.searchsorted(table["client"][order], np.arange(1, clients)))


def _spans(table: dict[str, Any], rows: Ints) -> list[Span]:
    return list(zip(table["began_at"][rows].tolist(), table["ended_at"][rows].tolist(), strict=True))


def _work(table: dict[str, Any], rows: Ints) -> tuple[list[Span], list[int]]:
    work: list[Span] = []
    rounds: list[int] = []
    for i, (start, end) in zip(table["round"][rows].tolist(), _spans(table, rows), strict=True):
        if rounds and rounds[-1] == i and abs(work[-1][1] - start) <= 1e-9 * max(1.0, abs(start)):
            work[-1] = (work[-1][0], end)  # a broadcast cut the work in two; draw one bar
        else:
            work.append((start, end))
            rounds.append(i)
    return work, rounds
