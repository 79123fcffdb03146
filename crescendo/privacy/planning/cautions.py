"""What to be warned of when a private run is planned, although its epsilon is true: one sentence for each."""

import math
from collections.abc import Iterator

from crescendo.privacy.mechanisms.certificate import Certificate

PERSONS = (
    "epsilon is about one record: a person with several records in one client's data is protected by that many times epsilon, at "
    "a larger delta; give each person one record, or divide the budget by the most that a person has"
)


def cautions(certificate: Certificate, delta: float) -> Iterator[str]:
    """Of a certified run."""
    yield from about_delta(delta, min(certificate.records))
    if (drowned := about_noise(certificate)) is not None:
        yield drowned
    slow = certificate.objective.traits.slow
    if slow is not None and certificate.kind.clips_records:
        yield slow
    yield PERSONS


def about_noise(certificate: Certificate) -> str | None:
    """That the noise drowns the gradients, by public numbers alone, and what to do; None where it does not."""
    drowned = noise_over_signal(certificate)
    if drowned <= 1:
        return None
    return (
        f"the noise of all rounds together is {drowned:.3g} times as long as all clipped gradients together: little "
        f"can be learned; take a larger epsilon, more records or gradients, a smaller model, or fewer and larger rounds"
    )


def about_delta(delta: float, records: int) -> Iterator[str]:
    """A delta above 1/N lets a mechanism that publishes one record at random pass.

    >>> list(about_delta(1e-6, 1000)), [says[:50] for says in about_delta(0.01, 1000)]
    ([], ['delta = 0.01 is above 1/N = 0.001: a program that '])
    """
    if delta > 1 / records:
        yield (
            f"delta = {delta:g} is above 1/N = {1 / records:.2g}: a program that publishes one record in full, chosen at random, "
            f"would meet it; take a delta well below 1/N"
        )


def noise_over_signal(certificate: Certificate) -> float:
    """The length of the noise of all rounds and clients, over the longest sum that all their clipped gradients can have.

    In units of eta D C, a client's s clipped gradients of a round add up to at most s, and the noise on its d / D coordinates
    has the length sigma sqrt(d / D). A whole update that is clipped (`batch-clip`) adds at most 1, and its noise is for 2.
    """
    terms = certificate.terms
    coordinates = certificate.objective.size / terms.blocks
    noise = certificate.sigma.aggregated(terms.rounds) * math.sqrt(terms.clients * coordinates)
    if certificate.kind.clips_records:
        return noise / terms.before(terms.rounds)
    return 2 * noise / (terms.rounds * terms.clients)
