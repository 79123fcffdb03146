"""Cautions about a plan whose epsilon is true: one sentence each."""

from collections.abc import Iterator

PERSONS = (
    "epsilon is about one record: a person with several records in one client's data is protected by that many times epsilon, at "
    "a larger delta; give each person one record, or divide the budget by the most that a person has"
)


def about_delta(delta: float, records: int) -> Iterator[str]:
    """Warn of a delta above 1/N: a mechanism that publishes one record at random would pass.

    >>> list(about_delta(1e-6, 1000)), [says[:50] for says in about_delta(0.01, 1000)]
    ([], ['delta = 0.01 is above 1/N = 0.001: a program that '])
    """
    if delta > 1 / records:
        yield (
            f"delta = {delta:g} is above 1/N = {1 / records:.2g}: a program that publishes one record in full, chosen at random, "
            f"would meet it; take a delta well below 1/N"
        )
