"""Private terms for a client's own file of three features."""

from __future__ import annotations

import functools

from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.federation.agreement import Agreement, build_terms
from tests.conformance.cases import PRIVATE, case

FEATURES = 3


@functools.cache
def agreed(mechanism: str = "minibatch") -> Agreement:
    """Terms that shorten records to length 3, for two classes and three features."""
    raw = case(
        clients={"count": 1},
        data={"source": "with the clients", "classes": [0, 1]},
        serve={"features": FEATURES},
        privacy={"mechanism": mechanism, **PRIVATE, "records": 300},
    )
    return build_terms(terms_text(read(raw)))
