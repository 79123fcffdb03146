"""Conversion of a JAX model's parameters, any pytree of float arrays, to a flat vector and back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from crescendo.core.arrays import Array, Floats, Vector
from crescendo.errors import ConfigError

_FLOATS = ("float32", "float64")


@dataclass(frozen=True)
class Leaves:
    """The layout of a pytree: its structure, and the shapes of its arrays in the order of the vector."""

    structure: Any
    shapes: tuple[tuple[int, ...], ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, params: Any) -> Leaves:
        """Return the layout of a pytree's vector; raise ConfigError if its leaves cannot form one."""
        paths, structure = jax.tree_util.tree_flatten_with_path(params)
        arrays = {"params" + jax.tree_util.keystr(path): leaf for path, leaf in paths}
        for name, leaf in arrays.items():
            what = str(getattr(leaf, "dtype", type(leaf).__name__))
            if what not in _FLOATS:
                raise ConfigError(
                    f"{name} is of {what}; every leaf of params must be a float32 array, or every one a float64 array"
                )
        kinds = {np.dtype(leaf.dtype) for leaf in arrays.values()}
        if len(kinds) > 1:
            raise ConfigError("params have leaves of float32 and of float64; all must be float32, or all float64")
        shapes = tuple(tuple(np.shape(leaf)) for leaf in arrays.values())
        if not sum(math.prod(shape) for shape in shapes):
            raise ConfigError("params have no trainable number; a pytree of float arrays is needed")
        return cls(structure, shapes, kinds.pop())

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(math.prod(shape) for shape in self.shapes)

    @property
    def size(self) -> int:
        return sum(self.sizes)

    def split(self, flat: Array) -> list[Array]:
        """Return the leaves of a vector, in its own floats."""
        ends = np.cumsum(self.sizes)[:-1]
        return [part.reshape(shape) for part, shape in zip(np.split(flat, ends), self.shapes, strict=True)]

    def leaves(self, w: Vector) -> list[Array]:
        """Return a copy of a model in the pytree's own floats, leaf by leaf."""
        return self.split(np.array(w, dtype=self.dtype))

    def vector(self, leaves: list[Any]) -> Floats:
        return np.concatenate([np.asarray(leaf, dtype=np.float64).ravel() for leaf in leaves])

    def tree(self, leaves: list[Any]) -> Any:
        return jax.tree_util.tree_unflatten(self.structure, leaves)
