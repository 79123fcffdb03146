"""The run file for records in memory: a default for every key; a private run's defaults do not depend on its records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crescendo.config.fitted_sizes import fitted, lacks_scale
from crescendo.data import Dataset
from crescendo.data.tables.doctor.number_writing import amounts
from crescendo.errors import ConfigError, CrescendoError
from crescendo.federation.schedule_terms import RunSchedule, Schedule
from crescendo.objectives.objective_kinds import OBJECTIVES

Raw = dict[str, Any]
CLIENTS = 5
EPOCHS = 5  # gradients for each training record
FEW_EPOCHS, FEW_GRADIENTS = 20, 10_000  # for a small table, whose passes are fast
ROUNDS = 20
PRIVATE_ROUNDS = 100
CLIP = 1.0
MOST_CLASSES = 100  # more different numbers count as amounts
LENGTH_KEYS = ("epochs", "gradients", "rounds", "sizes")  # any two of gradients, rounds and sizes determine the third


def run_file(data: Dataset, keys: Mapping[str, Any], objective: Any, many: int | None = None) -> Raw:
    """Return a whole run file for ``data`` and a user's model, an objective's name, or None for the usual objective.

    ``many`` is the number of clients with whom the records come. The file includes the length and sizes from ``keys``; the caller
    puts the other keys over it.
    """
    clients, private = keys.get("clients", CLIENTS if many is None else many), is_private(keys)
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
    epochs = EPOCHS if private or smooth or not _is_positive(clients) else EPOCHS * _more_clients(clients)
    raw["schedule"] = _schedule(records, keys, PRIVATE_ROUNDS if private else ROUNDS, epochs)
    whole_updates = (
        keys.get("mechanism") == "batch-clip" and "norm_bound" not in keys
    )  # its clip does not bound records
    if not smooth or whole_updates or isinstance(keys.get("clip"), list):
        raw["schedule"]["steps"] = _plain_steps(raw["schedule"], clients, private)
    if not private and "gradients" in raw["schedule"].keys() - keys.keys():
        # harmless here, but a later private run may start from this file and must not rest on counted numbers
        sized = "sizes" in keys and not lacks_scale(keys["sizes"])
        steps = raw["schedule"]["steps"] != "auto"  # "auto" is marked when it becomes numbers
        counted = ["gradients", *([] if sized else ["sizes"]), *(["steps"] if steps else [])]
        raw["draft"] = {"looked_at": [f"schedule.{name}" for name in counted]}
    if private:
        raw["privacy"] = {"mechanism": "minibatch", "clip": CLIP, "delta": usual_delta(keys["records"])}
    return raw


def _more_clients(clients: float) -> float:
    """Return the factor on the usual passes if steps do not adapt: the mean of many clients moves less for each gradient.

    On scikit-learn's digits a perceptron ends at 0.944 with 5 clients; without the factor, at 0.886 with 20 and 0.802 with 50.

    >>> _more_clients(2), _more_clients(20)
    (1.0, 2.0)
    """
    return max(1.0, math.sqrt(clients / CLIENTS))


def _schedule(records: int, keys: Mapping[str, Any], rounds: int, epochs: float) -> Raw:
    """Return a schedule of several passes in rounds that grow linearly, unless ``keys`` state a length and sizes."""
    asked = {name: keys[name] for name in LENGTH_KEYS if name in keys}
    passes = asked.pop("epochs", epochs)
    if "epochs" in keys and not _is_positive(passes):
        raise ConfigError(
            f"epochs, the passes over the records, is a number above 0 in place of gradients, not {passes!r:.60}; "
            f"5 passes over {records:,} records are gradients={5 * records}"
        )
    if "epochs" in keys and "gradients" in asked:
        raise ConfigError(
            f"epochs={passes:g} and gradients={asked['gradients']} both say how long the run is; leave one out "
            f"({passes:g} passes over {records:,} records are {math.ceil(passes * records):,} gradients)"
        )
    if "epochs" in keys and "rounds" in asked and "sizes" in asked and not lacks_scale(asked["sizes"]):
        raise ConfigError(
            f"epochs={passes:g}, rounds={asked['rounds']} and sizes are one too many, since any two of them decide the third; "
            "leave one out"
        )
    if "sizes" in asked and not isinstance(asked["sizes"], Mapping):
        raise ConfigError(_no_sizes(asked["sizes"]))
    sized = isinstance(asked.get("sizes"), Mapping) and not lacks_scale(asked["sizes"])
    if "gradients" not in asked and not (sized and "rounds" in asked and "epochs" not in keys):
        least = 0 if "epochs" in keys or is_private(keys) else min(FEW_EPOCHS * records, FEW_GRADIENTS)
        asked["gradients"] = max(math.ceil(passes * records), least)
    if "rounds" not in asked and not sized:
        asked["rounds"] = min(rounds, asked["gradients"]) if _is_positive(asked["gradients"]) else rounds
    return {**asked, "steps": "auto"}


def _no_sizes(given: object) -> str:
    """Return the error for sizes that are not a table, with the table that was probably meant.

    >>> _no_sizes(64)
    'sizes=64 does not say how sizes go on; rounds of 64 gradients over all clients are sizes={"kind": "constant", "size": 64}'
    """
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return (
            f"sizes={given} does not say how sizes go on; rounds of {given} gradients over all clients are "
            f'sizes={{"kind": "constant", "size": {given}}}'
        )
    if isinstance(given, list):
        return 'sizes is a table, and the sizes of the rounds one by one are sizes={"kind": "list", "values": [10, 20, 30]}'
    return f'sizes is a table, such as {{"kind": "constant", "size": 64}}, not {given!r:.60}'


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _usual(classes: int) -> str:
    """Return the usual objective for data with this number of classes."""
    return {0: "least-squares", 2: "logistic"}.get(classes, "softmax")


def predicts_numbers(objective: Any) -> bool:
    """Return True if an objective, given itself or by name, predicts numbers rather than classes."""
    if isinstance(objective, str):
        return objective in OBJECTIVES and OBJECTIVES[objective].numbers
    return bool(getattr(getattr(objective, "traits", None), "numbers", False))


def _says_smoothness(model: Any) -> bool:
    return getattr(getattr(model, "traits", model), "smoothness", None) is not None


def _plain_steps(schedule: Raw, clients: Any, private: bool) -> Raw:
    """Return steps for a model of unknown smoothness: a start, to be tuned. A private round is one step by all gradients."""
    gradients, rounds = _totals(schedule, clients)
    of_round = max(1.0, gradients / rounds / clients) if private and _is_positive(clients) else 1.0
    eta0 = (0.5 if private else 0.1) / of_round
    return {"kind": "diminishing", "eta0": float(f"{eta0:.2g}"), "beta": float(f"{3 / gradients:.2g}")}


def _totals(schedule: Raw, clients: Any) -> tuple[int, int]:
    """Return the gradients and the rounds of a run with this schedule; (1, 1) if the config will refuse it."""
    try:
        plain = {**schedule, "steps": {"kind": "constant", "eta": 1.0}}
        count = clients if isinstance(clients, int) else None
        sizes = RunSchedule(Schedule.checked(fitted(plain, count), "schedule has"), count or 1).sizes
        return sizes.gradients, sizes.rounds
    except (CrescendoError, ValueError):
        return 1, 1


# -- privacy: public facts are stated by the user --------------------------------------------------------------------------


def is_private(keys: Mapping[str, Any]) -> bool:
    """Return True if the keywords ask for privacy."""
    return keys.get("mechanism", "none") != "none" or "epsilon" in keys or "sigma" in keys


def stated_classes(y: Any) -> list[Any] | None:
    """Return the classes that the type of the labels states, whichever of them occur: bool does, and no other type.

    A pandas categorical has categories, but ``astype("category")`` reads them off the records, and the result does not show that.

    >>> import numpy as np
    >>> stated_classes(np.array([True, True])), stated_classes(np.array([0, 1]))
    ([0, 1], None)
    """
    return [0, 1] if getattr(getattr(y, "dtype", None), "kind", None) == "b" else None


def are_numbers(y: Any) -> bool:
    """Return True for labels to be predicted as numbers: more than two with fractions, or more values than classes allowed.

    >>> are_numbers(np.array([0.5, 1.2, 3.0])), are_numbers(np.array([0.0, 1.0, 2.0])), are_numbers(["a", "b"])
    (True, False, False)
    >>> are_numbers(np.arange(100)), are_numbers(np.arange(101))
    (False, True)
    """
    values = np.asarray(y)
    if values.ndim == 1 and values.dtype.kind in "OU":
        values = found if (found := amounts(values)) is not None else values
    if values.dtype.kind not in "fiu" or values.ndim != 1:
        return False
    found = np.unique(values[np.isfinite(values)])
    return len(found) > MOST_CLASSES or (len(found) > 2 and bool((found != np.rint(found)).any()))


def check_public(call: str, keys: Mapping[str, Any], classes: Sequence[object] | None) -> None:
    """Refuse a private run that lacks a number or list that no record may decide, with the line to write."""
    missing: Raw = {}
    if "records" not in keys:
        missing["records"] = 1000
    if classes is None:
        missing["classes"] = [0, 1]
    if not missing:
        return
    typed = {name: value for name, value in keys.items() if name not in ("test", "weights")}
    line = ", ".join(f"{name}={value!r}" for name, value in {**typed, **missing}.items())
    says = {
        "records": "records (how many each client declares)",
        "classes": "classes (the labels there can be; where y is to be predicted as a number, label_range=(low, high))",
    }
    raise ConfigError(
        f"a private run takes what others see from you, never from the records, and lacks "
        f"{' and '.join(says[name] for name in missing)}; write for example crescendo.{call}(X, y, {line})"
    )


def declared(records: Any, clients: Any) -> int:
    """Return the total of the clients' declared records; 1 for a declaration that the config will refuse."""
    counts = [records] * clients if isinstance(records, int) and isinstance(clients, int) else records
    sound = isinstance(counts, list) and counts and all(isinstance(count, int) and count > 0 for count in counts)
    return sum(counts) if sound else 1


def usual_delta(records: Any) -> float:
    """Return a power of ten of at most a hundredth of 1/N, for the most records N that a client declares.

    >>> usual_delta(1000), usual_delta([200, 25_000]), usual_delta("many")
    (1e-05, 1e-07, 1e-05)
    """
    counts = [count for count in (records if isinstance(records, list) else [records]) if isinstance(count, int)]
    most = max([*counts, 1]) if counts else 1000
    return float(f"1e-{math.ceil(math.log10(100 * most) - 1e-12)}")
