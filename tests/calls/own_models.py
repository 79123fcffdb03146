"""Models of a user's own for tests of calls: softmax regression in numpy and in JAX, a perceptron in torch."""

from __future__ import annotations

from typing import Any

import numpy as np


class OwnSoftmax:
    """Softmax regression with an intercept, as a user would write it."""

    def __init__(self, features: int, classes: int) -> None:
        self.shape = (classes, features + 1)

    def initial(self, rng: np.random.Generator) -> np.ndarray:
        return 0.01 * rng.standard_normal(self.shape[0] * self.shape[1])

    def _likely(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        scores = np.hstack([x, np.ones((len(x), 1))]) @ w.reshape(self.shape).T
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def gradient(self, w: np.ndarray, data: Any, rows: np.ndarray) -> np.ndarray:
        x = data.x[rows]
        off = self._likely(w, x)
        off[np.arange(len(rows)), data.y[rows].astype(int)] -= 1
        return np.asarray((off.T @ np.hstack([x, np.ones((len(x), 1))])).ravel())

    def evaluate(self, w: np.ndarray, data: Any) -> dict[str, float]:
        likely, label = self._likely(w, data.x), data.y.astype(int)
        loss = -np.log(likely[np.arange(len(label)), label] + 1e-12).mean()
        return {"loss": float(loss), "accuracy": float((likely.argmax(axis=1) == label).mean())}


def torch_mlp(features: int, classes: int) -> Any:
    """A perceptron with one hidden layer; its first weights are always the same."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(features, 16), nn.ReLU(), nn.Linear(16, classes))


def jax_softmax(features: int, classes: int) -> Any:
    """Softmax regression as a loss of JAX."""
    from jax import nn
    from jax import numpy as jnp

    import crescendo

    def predict(params: Any, x: Any) -> Any:
        return x @ params["w"] + params["b"]

    def loss(params: Any, x: Any, y: Any) -> Any:
        return -jnp.take_along_axis(nn.log_softmax(predict(params, x)), y[:, None], axis=1).mean()

    def params(rng: Any) -> Any:
        return {"w": jnp.zeros((features, classes)), "b": jnp.zeros(classes)}

    return crescendo.jax.model(loss, params, predict=predict)
