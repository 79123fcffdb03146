# mypy: allow-untyped-defs, disable-error-code=index
"""A torch module of your own, trained privately over four clients: python examples/own_torch_model.py (needs the extra torch)"""

from sklearn.datasets import load_digits
from torch import nn

import crescendo

x, y = load_digits(return_X_y=True)
data = crescendo.dataset((x / 16).astype("float32").reshape(-1, 1, 8, 8), y, classes=range(10))


def net():
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10))


config = {
    "clients": {"count": 4, "combine": "mean"},
    "schedule": {
        "rounds": 60,
        "sizes": {"kind": "constant", "size": 240},
        "steps": {"kind": "constant", "eta": 0.1},
    },
    "privacy": {"mechanism": "minibatch", "epsilon": 8.0, "delta": 1e-4, "clip": 1.0, "records": [359] * 4},
}
result = crescendo.simulate(config, objective=crescendo.torch.model(net), data=data)
print(f"accuracy {result.accuracy:.3f} at epsilon {result.privacy['epsilon']:.2f}")
trained = result.torch_model()  # a torch.nn.Module again
