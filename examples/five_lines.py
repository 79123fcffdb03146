"""Federated learning in five lines: your arrays in, an accuracy out. Run it with python examples/five_lines.py"""

from sklearn.datasets import load_digits

import crescendo

X, y = load_digits(return_X_y=True)
result = crescendo.simulate(X / 16, y, clients=5)
print(result)
