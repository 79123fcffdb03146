"""Registry of private mechanisms, by their names in run files, terms and policies.

A new kind is a subclass of `Proposal` in a new file and one line here, or one call of `register` from outside the
package. Run files, terms, policies, their errors and the reference follow from it.

A kind names its type of event. A kind whose noise is not Gaussian defines an `Event` with its Renyi divergence in the same
file; the accountant, the ledger and the search for the least noise work from that.
"""

import operator
from typing import Any

from crescendo.core.terms import Terms
from crescendo.errors import UsageError
from crescendo.objectives.base import Objective
from crescendo.objectives.layer_clips import LayerClips
from crescendo.privacy.mechanisms.batch_clip import BatchClip
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.local import Local
from crescendo.privacy.mechanisms.minibatch import Minibatch
from crescendo.privacy.mechanisms.proposal import Proposal
from crescendo_dp.planning.sigmas import Sigmas

NONE = "none"  # the name of "no mechanism" in run files

MECHANISMS: dict[str, type[Proposal]] = {}


def register(*kinds: type[Proposal]) -> None:
    """Register kinds by their names; refuse a name that is taken."""
    for kind in kinds:
        if is_mechanism(kind.name):
            raise UsageError(f"there is a mechanism called {kind.name!r} already; choose another name")
        MECHANISMS[kind.name] = kind


def is_mechanism(name: str) -> bool:
    """Return True if run files, terms and policies may use this name; `NONE` counts."""
    return name == NONE or name in MECHANISMS


def certify(
    mechanism: str,
    terms: Terms,
    objective: Objective,
    *,
    clip: Any,
    sigma: float | Sigmas,
    records: tuple[int, ...],
    norm_bound: float | None = None,
) -> Certificate:
    """Certify a mechanism under these terms or raise Refused. ``clip`` is a number, or a list of [numbers, clip]."""
    if mechanism not in MECHANISMS:
        raise UsageError(f"there is no certified mechanism {mechanism!r}; choose {' or '.join(MECHANISMS)}")
    layers = LayerClips.of(clip)
    limit = float(clip) if layers is None else layers.length  # a numpy float32 would make the noise scale float32, too
    norm_bound, records = None if norm_bound is None else float(norm_bound), tuple(map(operator.index, records))
    return MECHANISMS[mechanism](terms, objective, limit, Sigmas.of(sigma), records, norm_bound, layers).certified()


register(Minibatch, Local, BatchClip)
