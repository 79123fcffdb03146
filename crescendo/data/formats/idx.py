"""IDX files, the format of MNIST: a big-endian header (type, number of dimensions, sizes) and then the bytes."""

import math

import numpy as np
import numpy.typing as npt

from crescendo.errors import DataError


def parse(content: bytes, name: str, dimensions: int) -> npt.NDArray[np.uint8]:
    """The array of bytes in an IDX file that must have this many dimensions: 3 for images, 1 for labels.

    >>> parse(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), "labels", dimensions=1)
    array([7, 9], dtype=uint8)
    """
    start = 4 + 4 * dimensions
    if len(content) < start or content[:3] != b"\0\0\x08" or content[3] != dimensions:
        raise DataError(f"{name} is not an IDX file of bytes in {dimensions} dimension(s); check which file this is")
    shape = [int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4)]
    wanted = start + math.prod(shape)
    if len(content) != wanted:
        raise DataError(
            f"{name} has {len(content):,} bytes, but its header announces {wanted:,}; replace it by a whole copy"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)
