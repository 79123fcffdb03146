"""Random streams: one place, one sequence; two places, nothing in common."""

from __future__ import annotations

import numpy as np
import pytest

from crescendo.core.random import Purpose, aim, stream
from crescendo.errors import UsageError
from tests.core import setup_properties as properties


def test_streams_never_share_a_number() -> None:
    properties.streams_never_share_numbers(stream)


def test_a_stream_repeats_itself() -> None:
    properties.streams_repeat(stream)


def test_a_generator_aimed_anew_is_a_new_stream() -> None:
    def aimed(seed: int, purpose: Purpose, client: int = 0, round: int = 0) -> np.random.Generator:
        used = stream(9, Purpose.NOISE, 5, 5)
        used.normal(size=7)
        used.integers(0, 10, 3, dtype=np.uint32)  # leaves half a word behind
        return aim(used, seed, purpose, client, round)

    properties.streams_never_share_numbers(aimed)
    for place in ((0, Purpose.SAMPLE, 0, 0), (2**64 + 3, Purpose.MASK, 7, 9)):
        for draw in ("normal", "random"):
            assert getattr(aimed(*place), draw)(size=9).tolist() == getattr(stream(*place), draw)(size=9).tolist()


def test_the_global_generator_is_neither_used_nor_moved() -> None:
    before = np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    first = stream(1, Purpose.INIT).normal(size=3)
    np.random.seed(5)  # noqa: NPY002
    assert stream(1, Purpose.INIT).normal(size=3).tolist() == first.tolist()
    np.random.seed(5)  # noqa: NPY002
    state = np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    stream(1, Purpose.INIT).normal(size=3)
    assert np.random.get_state()[1].tolist() == state != before  # type: ignore[index]  # noqa: NPY002


@pytest.mark.parametrize("seed", [-1, 2**128])
def test_a_seed_out_of_range_is_refused(seed: int) -> None:
    with pytest.raises(UsageError):
        stream(seed, Purpose.INIT)
