"""A run's model in the formats of other libraries: ``crescendo export RUN --to torch|safetensors|sklearn|npz``."""

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from crescendo.config.loading import read
from crescendo.core.arrays import Floats
from crescendo.errors import ConfigError, UsageError
from crescendo.runs.folder import RUNNING

MODEL, TENSORS = "model.npz", "model.safetensors"


def export(run: Path, to: str, out: Path | None = None) -> Path:
    """Write the model of a run's folder as a file of another library; where it was written."""
    if to not in _FORMATS:
        raise ConfigError(f"a model is exported to {', '.join(_FORMATS)}, not to {to!r}")
    if run.name.endswith(RUNNING):
        raise ConfigError(f"{run} is a run that still goes on or was killed; export one that is complete")
    if not (run / MODEL).is_file():
        raise ConfigError(f"{run} is not a run's folder: it has no {MODEL}; name a folder that `crescendo run` made")
    suffix, write = _FORMATS[to]
    path = run / f"model{suffix}" if out is None else out
    if path.exists() and not (out is None and path.name in (MODEL, TENSORS)):
        raise ConfigError(f"{path} exists already; name another file with --out")
    draft = path.with_name(f"{path.name}.partial")
    try:
        write(run, draft)
        draft.replace(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {(error.strerror or 'unknown reason').lower()}") from None
    except (ValueError, KeyError, EOFError, BadZipFile) as error:
        raise ConfigError(f"the model in {run} is damaged and cannot be read; run it again") from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
    return path


def save_model(folder: Path, model: Floats, classes: tuple[Any, ...], tensors: dict[str, Any] | None) -> None:
    """The model of a run that has ended: the vector and what its labels mean; of a torch module also its named tensors."""
    np.savez(folder / MODEL, model=model, classes=np.array(json.dumps(classes)))
    if tensors is not None:
        with contextlib.suppress(ImportError):  # a run's model is not lost for the lack of a second format
            _save_tensors({name: value.numpy() for name, value in tensors.items()}, folder / TENSORS)


def logistic_regression(model: Floats, classes: tuple[Any, ...]) -> Any:
    """A fitted scikit-learn ``LogisticRegression`` with the weights of a logistic run."""
    from sklearn.linear_model import LogisticRegression

    made = LogisticRegression()
    made.classes_, made.n_features_in_ = np.array(classes), len(model) - 1
    made.coef_, made.intercept_ = model[None, :-1].copy(), model[-1:].copy()
    made.n_iter_ = np.array([1])
    return made


def _to_npz(run: Path, path: Path) -> None:
    shutil.copyfile(run / MODEL, path)


def _to_safetensors(run: Path, path: Path) -> None:
    if (run / TENSORS).is_file():
        shutil.copyfile(run / TENSORS, path)
        return
    with np.load(run / MODEL) as stored:
        _save_tensors({"model": stored["model"]}, path)


def _to_torch(run: Path, path: Path) -> None:
    if not (run / TENSORS).is_file():
        raise UsageError(f"{run} trained no torch module; export it to npz, safetensors or sklearn")
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = load_file(run / TENSORS)
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    with path.open("wb") as file:
        torch.save(tensors, file)


def _to_sklearn(run: Path, path: Path) -> None:
    import joblib

    if read(run / "config.toml").objective.kind != "logistic":
        raise UsageError(f"{run} trained no logistic regression; export it to npz, safetensors or torch")
    with np.load(run / MODEL) as stored:
        if "classes" not in stored:
            raise UsageError(f"{run} was made by an earlier version, which did not keep what labels mean; run it again")
        made = logistic_regression(stored["model"], tuple(json.loads(str(stored["classes"]))))
    joblib.dump(made, path)


def _save_tensors(tensors: dict[str, Any], path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({name: np.ascontiguousarray(value) for name, value in tensors.items()}, path, {"format": "pt"})


_FORMATS: dict[str, tuple[str, Callable[[Path, Path], None]]] = {
    "torch": (".pt", _to_torch),
    "safetensors": (".safetensors", _to_safetensors),
    "sklearn": (".joblib", _to_sklearn),
    "npz": (".npz", _to_npz),
}
