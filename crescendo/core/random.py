"""Random streams: one counter-based stream per purpose, client and round, and no global state."""

from collections.abc import Iterable, Iterator
from enum import IntEnum

import numpy as np

from crescendo.errors import UsageError


class Purpose(IntEnum):
    """The purpose of a stream. Two purposes never share numbers, so an extra draw for one changes no other."""

    SHARES = 1
    SPLIT = 2
    INIT = 3
    SAMPLE = 4
    NOISE = 5
    TIMING = 6
    MASK = 7
    REFINE = 8
    TUNING = 9


def stream(seed: int, purpose: Purpose, client: int = 0, round: int = 0, first: int = 0) -> np.random.Generator:
    """Return the stream of one purpose, client and round, starting at counter block ``first``.

    The counter has a fixed width (``default_rng((7, 2))`` equals ``default_rng((7, 2, 0))``, which would merge two
    streams). Philox increments its low word, with four numbers per block.

    >>> stream(7, Purpose.SAMPLE, client=2, round=5).integers(0, 100, 4)
    array([18, 36, 57, 66])
    >>> stream(7, Purpose.SAMPLE, client=5, round=2).integers(0, 100, 4)
    array([57, 14, 92, 80])
    """
    if not 0 <= seed < 2**128:
        raise UsageError(f"a seed is a whole number from 0 to 2**128 - 1, got {seed}")
    return np.random.Generator(np.random.Philox(key=seed, counter=[first, int(purpose), client, round]))


def each_round(seed: int, purpose: Purpose, rounds: Iterable[int]) -> Iterator[np.random.Generator]:
    """Yield one generator, pointed at each round's stream in turn: the numbers of `stream` without new generators.

    >>> [int(rng.integers(0, 100)) for rng in each_round(7, Purpose.SAMPLE, range(3))]
    [9, 99, 15]
    >>> [int(stream(7, Purpose.SAMPLE, round=i).integers(0, 100)) for i in range(3)]
    [9, 99, 15]
    """
    generator = stream(seed, purpose)
    bits = generator.bit_generator
    state = bits.state  # of a fresh generator; setting it makes a copy
    counter = state["state"]["counter"]
    for i in rounds:
        counter[3] = i
        bits.state = state
        yield generator


def aim(
    generator: np.random.Generator, seed: int, purpose: Purpose, client: int = 0, round: int = 0
) -> np.random.Generator:
    """Point a generator made by `stream` at another stream, at a tenth of the cost of a new one.

    >>> reused = stream(0, Purpose.SAMPLE)
    >>> aim(reused, 7, Purpose.SAMPLE, client=2, round=5).integers(0, 100, 4)
    array([18, 36, 57, 66])
    """
    low = 2**64 - 1
    generator.bit_generator.state = {
        "bit_generator": "Philox",
        "state": {
            "counter": np.array([0, int(purpose), client, round], dtype=np.uint64),
            "key": np.array([seed & low, seed >> 64], dtype=np.uint64),
        },
        "buffer": np.zeros(4, dtype=np.uint64),
        "buffer_pos": 4,  # the buffer is used up: the next draw computes a new block
        "has_uint32": 0,
        "uinteger": 0,
    }
    return generator
