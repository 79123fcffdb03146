"""LeNet-5 and a multi-layer perceptron as pure JAX functions; `torch_nets` has the same networks.

Parameters are pairs of weights and biases in torch's order and shapes, so that one flat vector is the same model in
both.

They are written for a compiled loop over single records on a CPU, two to three times as fast as a naive version. A
convolution is a product with the patches of an image laid out as columns. Channels come before records (CNHW), and
records after features, so each product multiplies two plain matrices, weights first, without transposes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from crescendo.objectives.nets.shapes import ACTIVATIONS, POOLS, chosen, first_bound, image_side, scales, widths

Pairs = list[tuple[Any, Any]]
_BENDS: dict[str, Callable[[Any], Any]] = {"relu": jax.nn.relu, "tanh": jnp.tanh}


@dataclass(frozen=True)
class PureNet:
    """The shapes of the weights, and the outputs for a batch of flat records."""

    shapes: tuple[tuple[int, ...], ...]
    outputs: Callable[[Pairs, Any], Any]
    scales: tuple[float, float, float]  # gain, centre and spread: `shapes.scales`

    def params(self, rng: Any) -> Pairs:
        """Draw parameters like torch, with weights times ``gain``."""
        made = []
        for key, shape in zip(jax.random.split(rng, len(self.shapes)), self.shapes, strict=True):
            bound, (first, second) = first_bound(shape), jax.random.split(key)
            weight = jax.random.uniform(first, shape, jnp.float32, -bound, bound) * self.scales[0]
            made.append((weight, jax.random.uniform(second, shape[:1], jnp.float32, -bound, bound)))
        return made

    def predict(self, params: Pairs, x: Any) -> Any:
        _, centre, spread = self.scales
        return self.outputs(params, (x.reshape(len(x), -1) - centre) / spread)

    def loss(self, params: Pairs, x: Any, y: Any) -> Any:
        said = jax.nn.log_softmax(self.predict(params, x))
        return -jnp.take_along_axis(said, y[:, None], axis=1)[:, 0]


def lenet(
    features: int,
    classes: int = 10,
    activation: str = "relu",
    pool: str = "max",
    gain: float = 1.0,
    centre: float = 0.0,
    spread: float = 1.0,
) -> PureNet:
    """Return LeNet-5 for 28 x 28 images as in most papers: 61,706 numbers for 10 classes."""
    side, bend = image_side(features), _BENDS[chosen("activation", activation, ACTIVATIONS)]
    largest = chosen("pool", pool, POOLS) == "max"

    def outputs(params: Pairs, x: Any) -> Any:
        count, x = len(x), x.reshape(1, len(x), side, side)
        for (weight, bias), pad in zip(params[:2], (2, 0), strict=True):
            x = _pooled(bend(_convolved(x, weight, pad) + bias[:, None, None, None]), largest)
        return _dense(params[2:], x.swapaxes(0, 1).reshape(count, -1), bend)

    shapes = ((6, 1, 5, 5), (16, 6, 5, 5), (120, 400), (84, 120), (classes, 84))
    return PureNet(shapes, outputs, scales(gain, centre, spread))


def mlp(
    features: int,
    classes: int = 10,
    hidden: int | Sequence[int] = 64,
    activation: str = "relu",
    gain: float = 1.0,
    centre: float = 0.0,
    spread: float = 1.0,
) -> PureNet:
    """Return a multi-layer perceptron with hidden layers of these widths."""
    sides, bend = widths(features, hidden, classes), _BENDS[chosen("activation", activation, ACTIVATIONS)]
    shapes = tuple((sides[k], sides[k - 1]) for k in range(1, len(sides)))
    return PureNet(shapes, lambda params, x: _dense(params, x, bend), scales(gain, centre, spread))


def _dense(params: Pairs, x: Any, bend: Callable[[Any], Any]) -> Any:
    x = x.T
    for weight, bias in params[:-1]:
        x = bend(weight @ x + bias[:, None])
    return (params[-1][0] @ x + params[-1][1][:, None]).T


def _convolved(x: Any, weight: Any, pad: int) -> Any:
    """Convolve, cutting patches by rows and then by columns: 5 + 5 copies of the images instead of 25."""
    (channels, count, side, _), (outputs, _, kernel, _) = x.shape, weight.shape
    x, out = jnp.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad))), side + 2 * pad - kernel + 1
    x = jnp.stack([x[:, :, i : i + out] for i in range(kernel)], axis=1)
    x = jnp.stack([x[..., j : j + out] for j in range(kernel)], axis=2)
    columns = x.reshape(channels * kernel * kernel, count * out * out)
    return (weight.reshape(outputs, -1) @ columns).reshape(outputs, count, out, out)


def _pooled(x: Any, largest: bool) -> Any:
    """Pool by rows and then by columns, which is faster."""
    channels, count, side, _ = x.shape
    for shape, axis in (((side // 2, 2, side), 3), ((side // 2, side // 2, 2), 4)):
        pairs = x.reshape(channels, count, *shape)
        x = pairs.max(axis=axis) if largest else pairs.mean(axis=axis)
    return x
