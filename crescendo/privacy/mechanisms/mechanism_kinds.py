"""Every kind of private mechanism, by the name that run files, terms and policies call it.

A new kind is one class below `Proposal` in a file of its own and one line here, or one call of `register` from outside the
package. What run files, terms and policies allow, the words of their errors and the reference follow from it.

A kind carries its own type of event. One whose noise is not a Gaussian brings an `Event` that knows its Renyi divergence, in its
own file: the accountant, the ledger and the search for the least noise go on from there.
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

NONE = "none"  # what run files call the lack of a mechanism

MECHANISMS: dict[str, type[Proposal]] = {}


def register(*kinds: type[Proposal]) -> None:
    """Make kinds known by their names; a name is given once."""
    for kind in kinds:
        if is_mechanism(kind.name):
            raise UsageError(f"there is a mechanism called {kind.name!r} already; choose another name")
        MECHANISMS[kind.name] = kind


def is_mechanism(name: str) -> bool:
    """Whether run files, terms and policies may name it; `NONE` is the lack of one."""
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
    """The certificate of a mechanism under these terms, or Refused. ``clip`` is a number, or a list of [numbers, clip]."""
    if mechanism not in MECHANISMS:
        raise UsageError(f"there is no certified mechanism {mechanism!r}; choose {' or '.join(MECHANISMS)}")
    layers = LayerClips.of(clip)
    limit = float(clip) if layers is None else layers.length  # numpy's float32 would make the noise's scale one, too
    norm_bound, records = None if norm_bound is None else float(norm_bound), tuple(map(operator.index, records))
    return MECHANISMS[mechanism](terms, objective, limit, Sigmas.of(sigma), records, norm_bound, layers).certified()


register(Minibatch, Local, BatchClip)
