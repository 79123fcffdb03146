"""The run file of records in memory: a default for every key, none of them read off the records of a private run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crescendo.data import Dataset
from crescendo.errors import ConfigError
from crescendo.objectives.objective_kinds import OBJECTIVES

Raw = dict[str, Any]
CLIENTS = 5
EPOCHS = 5  # gradients for each training record
ROUNDS = 20
PRIVATE_ROUNDS = 100
CLIP = 1.0


def run_file(data: Dataset, keys: Mapping[str, Any], objective: Any) -> Raw:
    """A whole run file for ``data`` and a model of the program's own, or an objective's name, or None for the usual one.

    What ``keys`` say is the caller's to put over it.
    """
    clients, private = keys.get("clients", CLIENTS), is_private(keys)
    kind = objective if isinstance(objective, str) else _usual(len(data.classes))
    smooth = kind in OBJECTIVES if objective is None or isinstance(objective, str) else _says_smoothness(objective)
    raw: Raw = {
        "data": {"source": data.name, **({"classes": list(data.classes)} if private and data.classes else {})},
        "clients": {
            **({} if str(keys.get("split", "")).startswith("column:") else {"count": clients}),
            "combine": "mean",
        },
        "objective": {"kind": kind} if objective is None or isinstance(objective, str) else {},
    }
    records = declared(keys["records"], clients) if private else len(data.train)
    raw["schedule"] = _schedule(records, keys, PRIVATE_ROUNDS if private else ROUNDS)
    whole_updates = (
        keys.get("mechanism") == "batch-clip" and "norm_bound" not in keys
    )  # whose clip says nothing of records
    if not smooth or whole_updates or isinstance(keys.get("clip"), list):
        raw["schedule"]["steps"] = _plain_steps(raw["schedule"], clients, private)
    if private:
        raw["privacy"] = {"mechanism": "minibatch", "clip": CLIP, "delta": usual_delta(keys["records"])}
    return raw


def _schedule(records: int, keys: Mapping[str, Any], rounds: int) -> Raw:
    """Some passes over the records, in rounds that grow linearly."""
    gradients, rounds = keys.get("gradients", EPOCHS * records), keys.get("rounds", rounds)
    if not all(isinstance(count, int) and count > 0 for count in (gradients, rounds)):
        gradients, rounds = 1, 1  # which the config refuses by name
    scale = 2 * gradients / (rounds * (rounds + 1))
    return {
        **({} if "rounds" in keys else {"gradients": gradients}),
        "sizes": {"kind": "power", "scale": float(f"{scale:.3g}")},
        "steps": "auto",
    }


def _usual(classes: int) -> str:
    """The objective for data of so many classes."""
    return {0: "least-squares", 2: "logistic"}.get(classes, "softmax")


def predicts_numbers(objective: Any) -> bool:
    """Whether an objective, or that of this name, takes labels as numbers and no classes."""
    if isinstance(objective, str):
        return objective in OBJECTIVES and OBJECTIVES[objective].numbers
    return bool(getattr(getattr(objective, "traits", None), "numbers", False))


def _says_smoothness(model: Any) -> bool:
    return getattr(getattr(model, "traits", model), "smoothness", None) is not None


def _plain_steps(schedule: Raw, clients: Any, private: bool) -> Raw:
    """Steps for a model that does not say how smooth it is: a start, to be tuned. A private round is one step of them all."""
    scale, gradients = schedule["sizes"]["scale"], schedule.get("gradients", 1)
    rounds = max(1.0, math.sqrt(2 * gradients / scale))
    of_round = max(1.0, gradients / rounds / clients) if private and isinstance(clients, int) and clients > 0 else 1.0
    eta0 = (0.5 if private else 0.1) / of_round
    return {"kind": "diminishing", "eta0": float(f"{eta0:.2g}"), "beta": float(f"{3 / max(gradients, 1):.2g}")}


# -- privacy: what must be public is typed in ------------------------------------------------------------------------------


def is_private(keys: Mapping[str, Any]) -> bool:
    """Do the keywords ask for privacy?"""
    return keys.get("mechanism", "none") != "none" or "epsilon" in keys or "sigma" in keys


def stated_classes(y: Any) -> list[Any] | None:
    """The classes that the type of the labels states by itself, whichever of them occur: those of bool, and of no other type.

    A categorical of pandas has categories, but ``astype("category")`` reads them off the records, and nothing tells if it did.

    >>> import numpy as np
    >>> stated_classes(np.array([True, True])), stated_classes(np.array([0, 1]))
    ([0, 1], None)
    """
    return [0, 1] if getattr(getattr(y, "dtype", None), "kind", None) == "b" else None


def are_numbers(y: Any) -> bool:
    """Whether labels are numbers to be predicted: floats with fractions, of which there are more than two.

    >>> are_numbers(np.array([0.5, 1.2, 3.0])), are_numbers(np.array([0.0, 1.0, 2.0])), are_numbers(["a", "b"])
    (True, False, False)
    """
    values = np.asarray(y)
    if values.dtype.kind != "f" or values.ndim != 1:
        return False
    found = np.unique(values[np.isfinite(values)])
    return len(found) > 2 and bool((found != np.rint(found)).any())


def check_public(call: str, keys: Mapping[str, Any], classes: Sequence[object] | None) -> None:
    """ConfigError, with the line to write, if a private run lacks what no record may decide."""
    missing: Raw = {}
    if "records" not in keys:
        missing["records"] = 1000
    if classes is None:
        missing["classes"] = [0, 1]
    if not missing:
        return
    typed = {name: value for name, value in keys.items() if name not in ("test", "weights")}
    line = ", ".join(f"{name}={value!r}" for name, value in {**typed, **missing}.items())
    says = {"records": "records (how many each client declares)", "classes": "classes (the labels there can be)"}
    raise ConfigError(
        f"a private run takes what others see from you, never from the records, and lacks "
        f"{' and '.join(says[name] for name in missing)}; write for example crescendo.{call}(X, y, {line})"
    )


def declared(records: Any, clients: Any) -> int:
    """The records that all clients declare together; 1 for what the config will refuse."""
    counts = [records] * clients if isinstance(records, int) and isinstance(clients, int) else records
    sound = isinstance(counts, list) and counts and all(isinstance(count, int) and count > 0 for count in counts)
    return sum(counts) if sound else 1


def usual_delta(records: Any) -> float:
    """A power of ten at most a hundredth of 1/N, for the most records N that a client declares.

    >>> usual_delta(1000), usual_delta([200, 25_000]), usual_delta("many")
    (1e-05, 1e-07, 1e-05)
    """
    counts = [count for count in (records if isinstance(records, list) else [records]) if isinstance(count, int)]
    most = max([*counts, 1]) if counts else 1000
    return float(f"1e-{math.ceil(math.log10(100 * most) - 1e-12)}")
