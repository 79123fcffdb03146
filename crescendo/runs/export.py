"""A run's model in the formats of other libraries: ``crescendo export RUN --to torch|safetensors|sklearn|npz``."""

import contextlib
import hashlib
import io
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from crescendo.config.loading import read
from crescendo.core.arrays import Floats
from crescendo.data import Dataset
from crescendo.data.scaling import Scaling
from crescendo.data.tables.feature_schema import Schema
from crescendo.errors import ConfigError, UsageError
from crescendo.runs.folder import RUNNING

MODEL, TENSORS = "model.npz", "model.safetensors"
Trained = Literal["logistic", "softmax", "least-squares", "torch", "own"]
_REGRESSIONS = ("logistic", "softmax", "least-squares")


class Exported(NamedTuple):
    """Where the file lies, and whether it was written now: a run's own file is there already."""

    path: Path
    written: bool


def export(run: Path, to: str, out: Path | None = None) -> Exported:
    """Write the model of a run's folder as a file of another library, once all of it was read and is sound."""
    if to not in _FORMATS:
        raise ConfigError(
            f"a model can be exported to {', '.join(_FORMATS)}, not to {to!r}; choose one of them with --to"
        )
    if run.name.endswith(RUNNING):
        raise ConfigError(f"{run} is a run that still goes on or was killed; export one that is complete")
    if not run.exists():
        raise ConfigError(f"there is no folder {run}; name one that `crescendo run` made")
    if not (run / MODEL).is_file():
        raise ConfigError(f"{run} is not a run's folder: it has no {MODEL}; name a folder that `crescendo run` made")
    suffix, content_of = _FORMATS[to]
    path = run / f"model{suffix}" if out is None else out
    stored = StoredModel.of(run)
    content = content_of(stored)
    if out is None and stored.has(path.name):
        return Exported(path, written=False)
    try:
        _write(path, content)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {(error.strerror or 'unknown reason').lower()}") from None
    return Exported(path, written=True)


def save_model(
    folder: Path,
    model: Floats,
    classes: tuple[Any, ...],
    trained: Trained,
    tensors: dict[str, Any] | None,
    intercept: bool = True,
    records: Mapping[str, Any] | None = None,
) -> None:
    """The model of a run that has ended: the vector, what its labels mean and how its ``records`` look (`about_records`).

    Of a torch module its named tensors are saved too.
    """
    digest = ""
    if tensors is not None:
        with contextlib.suppress(ImportError):  # a run's model is not lost for the lack of a second format
            content = _safetensors({name: value.cpu().numpy() for name, value in tensors.items()})
            (folder / TENSORS).write_bytes(content)
            digest = hashlib.sha256(content).hexdigest()
    meaning = np.array(json.dumps(classes))
    said: dict[str, Any] = {"classes": meaning, "trained": np.array(trained), "tensors": np.array(digest)}
    said["records"] = np.array(json.dumps(records))
    np.savez(folder / MODEL, model=model, intercept=np.array(intercept), **said)


def about_records(data: Dataset) -> dict[str, Any]:
    """How the records look that a model learned from: what must be known to ask it about others."""
    schema = None if data.schema is None else schema_digest(data.schema)
    scaling = None if data.scaling is None else data.scaling.plain()
    return {
        "features": data.features,
        "shape": data.train.shape,
        "names": data.names,
        "schema": schema,
        "scaling": scaling,
    }


def schema_digest(schema: Schema) -> str:
    """The same for two schemas exactly if they make the same features of every record."""
    return hashlib.sha256(json.dumps(schema.plain()["columns"], sort_keys=True).encode()).hexdigest()


def sklearn_regression(
    model: Floats, trained: str, classes: tuple[Any, ...], intercept: bool, scaling: Scaling | None = None
) -> Any:
    """A fitted scikit-learn ``LogisticRegression`` or ``LinearRegression`` that answers as a run of ours does.

    Where features were scaled for the run, its weights are for features as they were.
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


@dataclass(frozen=True)
class StoredModel:
    """What a run's folder holds of its model, all of it read. Folders of earlier versions lack ``trained`` and ``tensors``."""

    run: Path
    content: bytes  # of model.npz
    arrays: dict[str, Any]

    @classmethod
    def of(cls, run: Path) -> Self:
        content = _bytes_of(run / MODEL)
        with damage_named(run), np.load(io.BytesIO(content), allow_pickle=False) as file:
            if any(one.file_size > len(content) for one in file.zip.infolist()):
                raise ValueError("a run packs nothing, so this would unpack to more than the run wrote")
            arrays = {name: file[name] for name in file.files}
            if arrays["model"].ndim != 1:
                raise ValueError("a model is one vector")
        return cls(run, content, arrays)

    @property
    def trained(self) -> str:
        if "trained" in self.arrays:
            return str(self.arrays["trained"])
        if (self.run / TENSORS).is_file():
            return "torch"
        with contextlib.suppress(ConfigError):
            return read(self.run / "config.toml").objective.kind
        return "own"

    @property
    def intercept(self) -> bool:
        """Folders of earlier versions have it in their run file alone."""
        if "intercept" in self.arrays:
            return bool(self.arrays["intercept"])
        with contextlib.suppress(ConfigError):
            return read(self.run / "config.toml").objective.intercept
        return True

    @property
    def scaling(self) -> Scaling | None:
        """What was applied to the features; ValueError, among others, for a file that was changed."""
        said = (json.loads(str(self.arrays["records"])) if "records" in self.arrays else None) or {}
        plain = said.get("scaling")
        return None if plain is None else Scaling.from_plain(plain, int(said["features"]))

    @property
    def is_torch(self) -> bool:
        """Whether the run left the tensors of a torch module; it does not where safetensors is not installed."""
        return self.trained == "torch" and (self.run / TENSORS).is_file()

    def has(self, name: str) -> bool:
        """Whether the run itself wrote that file."""
        return name == MODEL or (name == TENSORS and self.is_torch)

    def tensors(self) -> bytes:
        """The file of the torch module's tensors, found sound. Torch itself is not needed for that."""
        from safetensors import deserialize

        content = _bytes_of(self.run / TENSORS)
        with damage_named(self.run):
            if "tensors" in self.arrays and hashlib.sha256(content).hexdigest() != str(self.arrays["tensors"]):
                raise ValueError(f"{TENSORS} is not the file that the run wrote")
            deserialize(content)  # type: ignore[no-untyped-call]
        return content

    def refusal(self, why: str) -> UsageError:
        """Why not to this format, and the formats that do work for this run."""
        if "federation" in self.arrays:
            return UsageError(
                f"{self.run} is a federation's folder, whose {MODEL} is the vector alone; docs/deploy.md says how to use it, and "
                "crescendo.torch.model(net).module(vector) gives a torch module these weights"
            )
        more = (
            ["torch"]
            if self.is_torch
            else ["sklearn"]
            if self.trained in _REGRESSIONS and "classes" in self.arrays
            else []
        )
        *some, last = ["npz", "safetensors", *more]
        return UsageError(f"{self.run} {why}; export it to {', '.join(some)} or {last}")


def _to_npz(stored: StoredModel) -> bytes:
    return stored.content


def _to_safetensors(stored: StoredModel) -> bytes:
    if stored.is_torch:
        return stored.tensors()
    return _safetensors({"model": stored.arrays["model"]})


def _to_torch(stored: StoredModel) -> bytes:
    if not stored.is_torch:
        raise stored.refusal("holds no torch module" if stored.trained == "torch" else "trained no torch module")
    import torch
    from safetensors.torch import load

    file = io.BytesIO()
    torch.save(load(stored.tensors()), file)
    return file.getvalue()


def _to_sklearn(stored: StoredModel) -> bytes:
    import joblib

    if stored.trained not in _REGRESSIONS:
        raise stored.refusal("trained no regression of ours")
    if "classes" not in stored.arrays:
        raise stored.refusal("was made by an earlier version, which did not keep what labels mean")
    with damage_named(stored.run):
        classes = tuple(json.loads(str(stored.arrays["classes"])))
        scaling = stored.scaling
    file = io.BytesIO()
    joblib.dump(sklearn_regression(stored.arrays["model"], stored.trained, classes, stored.intercept, scaling), file)
    return file.getvalue()


def _safetensors(tensors: dict[str, Any]) -> bytes:
    from safetensors.numpy import save

    return save({name: np.ascontiguousarray(value) for name, value in tensors.items()}, {"format": "pt"})


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {(error.strerror or 'unknown reason').lower()}") from None


@contextlib.contextmanager
def damage_named(run: Path) -> Iterator[None]:
    """Readers of zip, npy and safetensors raise dozens of types; about bytes in memory each of them means damage."""
    try:
        yield
    except Exception as error:
        raise ConfigError(f"the model in {run} is damaged and cannot be read; run it again") from error


def _write(path: Path, content: bytes) -> None:
    """A whole file or none, by a draft that nobody else has a file of the name of; never over a file that is there."""
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
    "npz": (".npz", _to_npz),
}
