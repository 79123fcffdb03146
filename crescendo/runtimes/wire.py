"""What a message costs on the wire."""

from __future__ import annotations

import numpy as np

OVERHEAD = 32  # bytes of a message that are not its vector: round, client, k, hash of the terms


def message_bytes(numbers: int, wire: str) -> int:
    """Bytes of a message whose vector has ``numbers`` floats of type ``wire``.

    >>> message_bytes(124, "float32")
    528
    """
    return numbers * np.dtype(wire).itemsize + OVERHEAD
