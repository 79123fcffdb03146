# mypy: allow-untyped-defs, allow-untyped-calls
"""A model of your own: softmax regression. Try it with `crescendo run examples/own_model.toml`."""

import numpy as np


class Softmax:
    def __init__(self, features, classes=10):
        self.shape = (classes, features)

    def initial(self, rng):
        return 0.01 * rng.standard_normal(self.shape[0] * self.shape[1])

    def _probabilities(self, w, x):
        scores = x @ w.reshape(self.shape).T
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def gradient(self, w, data, rows):
        """The sum over the rows of each record's gradient."""
        off = self._probabilities(w, data.x[rows])
        off[np.arange(len(rows)), data.y[rows].astype(int)] -= 1
        return (off.T @ data.x[rows]).ravel()

    def evaluate(self, w, data):
        likely, label = self._probabilities(w, data.x), data.y.astype(int)
        loss = -np.log(likely[np.arange(len(label)), label] + 1e-12).mean()
        return {"loss": loss, "accuracy": (likely.argmax(axis=1) == label).mean()}
