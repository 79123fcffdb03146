"""Export of a trained model to other libraries: ``crescendo export MODEL --to torch|safetensors|sklearn|onnx|npz``.

MODEL is the folder of a run or a finished federation.
"""

import io
import json
import math
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from crescendo.core.arrays import Floats
from crescendo.data.scaling import Scaling
from crescendo.errors import ConfigError, UsageError
from crescendo.federation.finished_federation import FinishedFederation
from crescendo.runs.folder import RUNNING
from crescendo.runs.models.model_card import CARD, ModelCard
from crescendo.runs.models.stored_model import (
    MODEL,
    REGRESSIONS,
    StoredModel,
    bytes_of,
    damage_named,
    safetensors_bytes,
)


class Exported(NamedTuple):
    """The path of an exported model. ``written`` is False if the run had already written that file."""

    path: Path
    written: bool
    by_schema: bool = False  # whether a schema makes its features from a table's columns
    card: Path | None = None  # a federation's model card, next to the file; a run's folder already has one


def export(run: Path, to: str, out: Path | None = None) -> Exported:
    """Write a stored model as a file of another library, after reading and checking all of it."""
    if to not in _FORMATS:
        raise ConfigError(
            f"a model can be exported to {', '.join(_FORMATS)}, not to {to!r}; choose one of them with --to"
        )
    if run.name.endswith(RUNNING):
        raise ConfigError(f"{run} is a run that is still going or was killed; export one that is complete")
    if not run.exists():
        raise ConfigError(f"there is no folder {run}; name one that `crescendo run` made")
    found = FinishedFederation.of(run) if FinishedFederation.is_at(run) else None
    stored = _stored_run(run) if found is None else StoredModel.of_federation(found)
    suffix, content_of = _FORMATS[to]
    path = stored.run / f"model{suffix}" if out is None else out
    content = content_of(stored)
    if out is None and stored.has(path.name):
        return Exported(path, False, stored.by_schema, None if found is None else _card(found, path.parent))
    try:
        _write(path, content)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {(error.strerror or 'unknown reason').lower()}") from None
    return Exported(path, True, stored.by_schema, None if found is None else _card(found, path.parent))


def _card(found: FinishedFederation, folder: Path) -> Path | None:
    """Write the card of a federation's model next to it. Leave a card of another model as it is, and return None."""
    path, text = folder / CARD, str(ModelCard.of_federation(found)).encode()
    if path.exists():
        return path if bytes_of(path) == text else None
    _write(path, text)
    return path


def _stored_run(run: Path) -> StoredModel:
    if run.is_file() or not (run / MODEL).is_file():
        raise ConfigError(f"{run} is not a run's folder: it has no {MODEL}; name a folder that `crescendo run` made")
    return StoredModel.of(run)


def sklearn_regression(
    model: Floats, trained: str, classes: tuple[Any, ...], intercept: bool, scaling: Scaling | None = None
) -> Any:
    """Return a fitted scikit-learn ``LogisticRegression`` or ``LinearRegression`` that predicts as the run's model does.

    If features were scaled for the run, the weights returned are for the unscaled features.
    """
    from sklearn.linear_model import LinearRegression, LogisticRegression

    table = model.reshape(-1, len(classes) if trained == "softmax" else 1).T  # a row for each class
    if trained == "softmax" and len(classes) == 2:
        table = table[1:] - table[:1]  # scikit-learn keeps one row for two classes
    if scaling is not None:
        table, intercept = scaling.unscaled(table, intercept), True
    weights, offsets = (table[:, :-1], table[:, -1]) if intercept else (table, np.zeros(len(table)))
    made = LinearRegression() if trained == "least-squares" else LogisticRegression()
    made.n_features_in_ = weights.shape[1]
    if trained == "least-squares":
        made.coef_, made.intercept_ = weights[0].copy(), float(offsets[0])
        return made
    made.classes_, made.coef_, made.intercept_ = np.array(classes), weights.copy(), offsets.copy()
    made.n_iter_ = np.array([1])
    return made


def _to_npz(stored: StoredModel) -> bytes:
    return stored.content


def _to_safetensors(stored: StoredModel) -> bytes:
    if stored.is_torch:
        return stored.tensors()
    return safetensors_bytes({"model": stored.arrays["model"]})


def _to_torch(stored: StoredModel) -> bytes:
    if not stored.is_torch:
        raise stored.refusal("holds no torch module" if stored.trained == "torch" else "trained no torch module")
    import torch
    from safetensors.torch import load

    file = io.BytesIO()
    torch.save(load(stored.tensors()), file)
    return file.getvalue()


def _regression(stored: StoredModel) -> tuple[tuple[Any, ...], Scaling | None]:
    """Return the classes and the scaling of a built-in regression. Refuse other models and damaged ones."""
    if stored.trained not in REGRESSIONS:
        raise stored.refusal("trained no built-in regression")
    if "classes" not in stored.arrays:
        raise stored.refusal("was made by an earlier version, which did not keep the labels of the classes")
    with damage_named(stored.run):
        classes = tuple(json.loads(str(stored.arrays["classes"])))
        if not all(isinstance(one, str) or (type(one) in (int, float) and abs(one) < math.inf) for one in classes):
            raise ValueError("these are not classes")
        if stored.trained != "least-squares" and len(set(classes)) < 2:
            raise ValueError("there are fewer than two classes")
        each, rest = divmod(len(stored.arrays["model"]), len(classes) if stored.trained == "softmax" else 1)
        if rest or (stored.width is not None and each != stored.width + stored.intercept):
            raise ValueError("the model has another number of features or classes")
        return classes, stored.scaling


def _to_sklearn(stored: StoredModel) -> bytes:
    import joblib

    classes, scaling = _regression(stored)
    file = io.BytesIO()
    joblib.dump(sklearn_regression(stored.arrays["model"], stored.trained, classes, stored.intercept, scaling), file)
    return file.getvalue()


def _to_onnx(stored: StoredModel) -> bytes:
    from crescendo.runs.models.onnx_file import onnx_bytes

    classes, scaling = _regression(stored)
    model = np.asarray(stored.arrays["model"], dtype=np.float64)
    if not np.isfinite(model).all():
        raise UsageError(f"the model in {stored.run} has numbers that are not finite: the run diverged; run it again")
    with damage_named(stored.run):
        names = stored.features
    return onnx_bytes(model, stored.trained, classes, stored.intercept, scaling, names)


def _write(path: Path, content: bytes) -> None:
    """Write a new file, whole or not at all, by way of a draft with a random name; never overwrite a file."""
    if path.exists():
        raise ConfigError(f"{path} exists already; name another file with --out")
    draft = path.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        with draft.open("xb") as file:
            file.write(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


_FORMATS: dict[str, tuple[str, Callable[[StoredModel], bytes]]] = {
    "torch": (".pt", _to_torch),
    "safetensors": (".safetensors", _to_safetensors),
    "sklearn": (".joblib", _to_sklearn),
    "onnx": (".onnx", _to_onnx),
    "npz": (".npz", _to_npz),
}
