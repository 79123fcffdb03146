# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code=index
"""A JAX model of your own, trained privately over four clients: python examples/own_jax_model.py"""

from jax import nn, random
from jax import numpy as jnp
from sklearn.datasets import load_digits

import crescendo

data = crescendo.dataset(*load_digits(return_X_y=True), classes=range(10))


def predict(params, x):
    return nn.relu(x / 16 @ params["hidden"]) @ params["last"]


def loss(params, x, y):
    return -jnp.take_along_axis(nn.log_softmax(predict(params, x)), y[:, None], axis=1).mean()


def params(rng):  # a JAX random key
    return {"hidden": random.normal(rng, (64, 32)) / 8, "last": jnp.zeros((32, 10))}


schedule = {"rounds": 60, "sizes": {"kind": "constant", "size": 240}, "steps": {"kind": "constant", "eta": 0.05}}
privacy = {"mechanism": "minibatch", "epsilon": 8.0, "delta": 1e-4, "clip": 1.0, "records": [359] * 4}
config = {"clients": {"count": 4, "combine": "mean"}, "schedule": schedule, "privacy": privacy}
result = crescendo.simulate(config, objective=crescendo.jax.model(loss, params, predict=predict), data=data)
print(f"accuracy {result.accuracy:.3f} at epsilon {result.privacy['epsilon']:.2f}")
trained = result.jax_params()  # the pytree again
