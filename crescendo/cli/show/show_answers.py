"""Predictions as csv: one column, with a line for each record in the order of the table."""

import csv
import io
from pathlib import Path

from crescendo.core.arrays import Array
from crescendo.errors import ConfigError
from crescendo.whole_files import whole_file


def csv_of(predictions: Array) -> str:
    """
    >>> import numpy as np
    >>> print(csv_of(np.array(["long", "short, or none"])), end="")
    prediction
    long
    "short, or none"
    """
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["prediction"])
    lines.writerows([answer] for answer in predictions.tolist())
    return text.getvalue()


def write_new(path: Path, text: str) -> None:
    """Write a new file, whole or not at all."""
    if path.exists():
        raise ConfigError(f"{path} exists already; name another file with --out")
    with whole_file(path, f"{path.suffix}.partial") as file:
        file.write(text.encode())
