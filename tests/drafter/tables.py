"""Tables as lines of a csv, read as a draft reads them, and the draft of one from a seed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from crescendo.data.tables.cells import Table
from crescendo.data.tables.table_files import csv_table
from crescendo.drafter.draft_certificate import DraftCertificate
from crescendo.drafter.draft_request import DraftRequest
from crescendo.drafter.noisy_counts import NoisyCounts
from crescendo.drafter.private_draft import PrivateDraft, private_draft
from crescendo.privacy.mechanisms.noise import SeededSource


def table_of(header: str, lines: Iterable[str | bytes]) -> Table:
    encoded = [line if isinstance(line, bytes) else line.encode() for line in lines]
    return csv_table(b"\n".join([header.encode(), *encoded]) + b"\n", "a table", alone=True)


def drafted_from(table: Table, request: DraftRequest, seed: int = 0) -> PrivateDraft:
    questions = request.questions(list(table.columns), table.name)
    certificate = DraftCertificate.of(request, questions)
    return private_draft(table, request, questions, NoisyCounts(certificate, SeededSource(seed, client=0)))


def patients(rows: int, seed: int = 0) -> Sequence[str]:
    """Lines of age, income, sex, city, visited and died."""
    draw = np.random.default_rng(seed)
    ages, incomes = draw.normal(50, 12, rows).clip(18, 95).round(), draw.lognormal(10, 0.8, rows)
    sexes, cities = draw.choice(["f", "m"], rows), draw.choice(["Oslo", "Bergen", ""], rows, p=[0.6, 0.3, 0.1])
    died = np.where(ages + draw.normal(0, 8, rows) > 50, "yes", "no")
    each = zip(ages, incomes, sexes, cities, died, strict=True)
    return [
        f"{age:g},{income:.2f},{sex},{city},2024-03-0{i % 9 + 1},{end}"
        for i, (age, income, sex, city, end) in enumerate(each)
    ]


HEADER = "age,income,sex,city,visited,died"
