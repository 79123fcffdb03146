"""Stored model of a run or a finished federation: its vector, and the meaning of its labels and features."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from crescendo.config.loading import read
from crescendo.core.arrays import Floats
from crescendo.data import Dataset
from crescendo.data.scaling import Scaling
from crescendo.data.tables.feature_schema import Schema
from crescendo.errors import ConfigError, UsageError
from crescendo.federation.finished_federation import FinishedFederation
from crescendo.federation.objective_terms import Described
from crescendo.tables import read_toml

MODEL, TENSORS = "model.npz", "model.safetensors"
Trained = Literal["logistic", "softmax", "least-squares", "torch", "own"]
REGRESSIONS = ("logistic", "softmax", "least-squares")


def save_model(
    folder: Path,
    model: Floats,
    classes: tuple[Any, ...],
    trained: Trained,
    tensors: dict[str, Any] | None,
    intercept: bool = True,
    records: Mapping[str, Any] | None = None,
) -> None:
    """Save the model of a finished run: the vector, its labels, and the form of its ``records`` (`about_records`).

    A torch module's named ``tensors`` are saved too.
    """
    digest = ""
    if tensors is not None:
        with contextlib.suppress(ImportError):  # without safetensors, the run keeps its model in one format
            content = safetensors_bytes({name: value.cpu().numpy() for name, value in tensors.items()})
            (folder / TENSORS).write_bytes(content)
            digest = hashlib.sha256(content).hexdigest()
    meaning = np.array(json.dumps(classes))
    said: dict[str, Any] = {"classes": meaning, "trained": np.array(trained), "tensors": np.array(digest)}
    said["records"] = np.array(json.dumps(records))
    np.savez(folder / MODEL, model=model, intercept=np.array(intercept), **said)


def about_records(data: Dataset) -> dict[str, Any]:
    """Return the form of a model's training records, which is needed to predict others."""
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
    """Return a digest that is equal for two schemas exactly if they make the same features from every record."""
    return hashlib.sha256(json.dumps(schema.plain()["columns"], sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class StoredModel:
    """The model in a run's folder, read completely. Folders of earlier versions lack ``trained`` and ``tensors``."""

    run: Path
    content: bytes  # of model.npz
    arrays: dict[str, Any]

    @classmethod
    def of(cls, run: Path) -> Self:
        content = bytes_of(run / MODEL)
        with damage_named(run), np.load(io.BytesIO(content), allow_pickle=False) as file:
            if any(one.file_size > len(content) for one in file.zip.infolist()):
                raise ValueError("a run packs nothing, so this would unpack to more than the run wrote")
            arrays = {name: file[name] for name in file.files}
            if arrays["model"].ndim != 1:
                raise ValueError("a model is one vector")
        return cls(run, content, arrays)

    @classmethod
    def of_federation(cls, found: FinishedFederation) -> Self:
        """Return the model of a finished federation, with the labels and features of its terms."""
        agreed, goal = found.agreed, found.agreed.objective
        schema = None if agreed.schema is None else schema_digest(agreed.schema)
        names = () if agreed.schema is None else agreed.schema.features
        said = {"features": agreed.features, "shape": (), "names": (), "schema": schema, "scaling": None}
        library = goal.library if isinstance(goal, Described) else ""
        arrays = {
            "model": found.model,
            "federation": np.array(agreed.federation),
            "classes": np.array(json.dumps(found.classes if not found.numbers else ())),
            "trained": np.array(found.kind if not isinstance(goal, Described) else library or "own"),
            "intercept": np.array(goal.traits.intercept),
            "records": np.array(json.dumps(said)),
            "names": np.array(json.dumps(names)),
        }
        folder = found.place if found.place.is_dir() else found.place.parent
        return cls(folder, bytes_of(folder / MODEL if found.place.is_dir() else found.place), arrays)

    @property
    def is_federation(self) -> bool:
        """Whether a federation trained it, which leaves only the model."""
        return "federation" in self.arrays

    @property
    def _said(self) -> dict[str, Any]:
        """The form of the training records. A file that was changed raises ValueError or another error."""
        return (json.loads(str(self.arrays["records"])) if "records" in self.arrays else None) or {}

    @property
    def width(self) -> int | None:
        """The number of features of a record; None in folders of early versions."""
        return int(self._said["features"]) if self._said else None

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features, if they are known."""
        said = self._said
        if "names" in self.arrays:
            return tuple(json.loads(str(self.arrays["names"])))
        if said.get("schema") is not None and (self.run / "schema.toml").is_file():
            return Schema.of(read_toml(self.run / "schema.toml", "schema file", "copy the whole folder")).features
        return tuple(str(name) for name in said.get("names", ()))

    @property
    def by_schema(self) -> bool:
        """Whether a schema makes its features from a table's columns."""
        with damage_named(self.run):
            return self._said.get("schema") is not None

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
        """Whether the model has an intercept. Folders of earlier versions have this only in their run file."""
        if "intercept" in self.arrays:
            return bool(self.arrays["intercept"])
        with contextlib.suppress(ConfigError):
            return read(self.run / "config.toml").objective.intercept
        return True

    @property
    def scaling(self) -> Scaling | None:
        """The scaling of the features. A file that was changed raises ValueError or another error."""
        plain = self._said.get("scaling")
        return None if plain is None else Scaling.from_plain(plain, int(self._said["features"]))

    @property
    def is_torch(self) -> bool:
        """Whether the run saved the tensors of a torch module, which needs safetensors to be installed."""
        return self.trained == "torch" and not self.is_federation and (self.run / TENSORS).is_file()

    def has(self, name: str) -> bool:
        """Return whether the run itself wrote the file ``name``."""
        return name == MODEL or (name == TENSORS and self.is_torch)

    def tensors(self) -> bytes:
        """Return the file of the torch module's tensors after checking it. This does not need torch."""
        from safetensors import deserialize

        content = bytes_of(self.run / TENSORS)
        with damage_named(self.run):
            if "tensors" in self.arrays and hashlib.sha256(content).hexdigest() != str(self.arrays["tensors"]):
                raise ValueError(f"{TENSORS} is not the file that the run wrote")
            deserialize(content)  # type: ignore[no-untyped-call]
        return content

    def refusal(self, why: str) -> UsageError:
        """Return the refusal of a format, with the reason and the formats that this model can be exported to."""
        regression = self.trained in REGRESSIONS and "classes" in self.arrays
        more = ["torch"] if self.is_torch else ["sklearn", "onnx"] if regression else []
        *some, last = ["npz", "safetensors", *more]
        own = (
            ""
            if regression or not self.is_federation
            else ": crescendo.torch.model(net).module(vector) makes a torch module of it"
        )
        return UsageError(f"{self.run} {why}; export it to {', '.join(some)} or {last}{own}")


def bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {(error.strerror or 'unknown reason').lower()}") from None


@contextlib.contextmanager
def damage_named(run: Path) -> Iterator[None]:
    """Report any error as damage: readers of zip, npy and safetensors raise dozens of types for damaged bytes."""
    try:
        yield
    except Exception as error:
        raise ConfigError(f"the model in {run} is damaged and cannot be read; run it again") from error


def safetensors_bytes(tensors: dict[str, Any]) -> bytes:
    from safetensors.numpy import save

    return save({name: np.ascontiguousarray(value) for name, value in tensors.items()}, {"format": "pt"})
