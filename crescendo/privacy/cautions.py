"""Warnings about a private run whose epsilon is true, one sentence each."""

import math
from collections.abc import Iterator

from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo_dp.planning.cautions import PERSONS, about_delta


def cautions(certificate: Certificate, delta: float) -> Iterator[str]:
    """Yield the warnings about a certified run."""
    yield from about_delta(delta, min(certificate.records))
    if (drowned := about_noise(certificate)) is not None:
        yield drowned
    slow = certificate.objective.traits.slow
    if slow is not None and certificate.kind.clips_records:
        yield slow
    yield PERSONS


def about_noise(certificate: Certificate) -> str | None:
    """Warn that the noise drowns the gradients, judged by public numbers alone; None if it does not."""
    drowned = noise_over_signal(certificate)
    if drowned <= 1:
        return None
    return (
        f"the noise of all rounds together is {drowned:.3g} times as long as all clipped gradients together: little "
        f"can be learned; take a larger epsilon, more records or gradients, a smaller model, or fewer and larger rounds"
    )


def noise_over_signal(certificate: Certificate) -> float:
    """Return the length of all rounds' and clients' noise over the longest possible sum of their clipped gradients.

    In units of eta D C, a client's s clipped gradients of a round add up to at most s, and the noise on its d / D
    coordinates has the length sigma sqrt(d / D). A clipped update (`batch-clip`) adds at most 1, and its noise hides 2.
    """
    terms = certificate.terms
    coordinates = certificate.objective.size / terms.blocks
    noise = certificate.sigma.aggregated(terms.rounds) * math.sqrt(terms.clients * coordinates)
    if certificate.kind.clips_records:
        return noise / terms.before(terms.rounds)
    return 2 * noise / (terms.rounds * terms.clients)
