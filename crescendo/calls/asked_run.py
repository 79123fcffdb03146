"""The run that a call asks for: a run file or records in memory, with keywords put over the run file's keys."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from crescendo.calls.array_run import (
    LENGTH_KEYS,
    are_numbers,
    check_public,
    is_private,
    predicts_numbers,
    run_file,
    stated_classes,
)
from crescendo.calls.asked_clients import AskedClients
from crescendo.calls.keywords import PATHS, Raw, known, put
from crescendo.config.loading import read
from crescendo.config.schema import Config
from crescendo.data import Dataset
from crescendo.data.from_arrays import dataset
from crescendo.data.labels import NUMBERS
from crescendo.data.memory.given_clients import is_clients, is_dictionary, is_list_of_clients
from crescendo.data.scaling import scaled
from crescendo.data.tables.table_files import is_frame
from crescendo.errors import ConfigError, UsageError
from crescendo.objectives.linear.linear_model import LinearModel
from crescendo.objectives.model_file import library_of
from crescendo.objectives.nets.net_names import is_net
from crescendo.objectives.neural.neural_model import NeuralModel, optimiser_of
from crescendo.objectives.objective_kinds import OBJECTIVES


class Shaped(Protocol):
    """A numpy array, data frame, sparse matrix or tensor."""

    @property
    def shape(self) -> Any: ...


RunFile: TypeAlias = Config | Path | str | Mapping[str, Any]
Rows: TypeAlias = Dataset | Shaped | Iterable[Any]
_OF_ARRAYS = frozenset(
    ("test", "classes", "schema", "drop", "categories", "missing", "scale")
)  # keywords about arrays in memory
_TABLES = (
    ".csv",
    ".tsv",
    ".txt",
    ".parquet",
    ".xlsx",
    ".xls",
    ".json",
    ".npz",
)  # files that people pass instead of a run file
Data: TypeAlias = Dataset | tuple[Any, Any] | None


@dataclass(frozen=True, eq=False)
class AskedRun:
    """A checked config, with the records and the model that a program passes in memory."""

    config: Config
    data: Dataset | None
    objective: Any

    @classmethod
    def of(
        cls,
        call: str,
        run: Any,
        y: Any,
        data: Any,
        objective: Any,
        overrides: Sequence[str],
        name: str,
        keys: Mapping[str, Any],
    ) -> AskedRun:
        """Read the arguments of ``crescendo.<call>``; refuse arguments that are neither a run file nor records."""
        _check_overrides(overrides, keys)
        asked = known(keys, call)
        filed = (isinstance(run, Config | Path | str) or is_dictionary(run)) and not is_clients(run)
        model, asked = with_optimizer(as_model(objective, asked.get("optimizer")), asked, filed)
        if filed:
            if y is not None and isinstance(run, str | Path) and Path(run).suffix.lower() in _TABLES:
                raise UsageError(
                    f"{run} is a table and no run file; read it first, as in crescendo.{call}(pandas.read_csv({str(run)!r}), "
                    f"{y!r:.60})"
                )
            if y is not None:
                raise UsageError(
                    f"y goes with x, as in crescendo.{call}(x, y); with a run file, records are data=(x, y) and a model is "
                    "objective=.."
                )
            return cls._of_file(call, run, data, model, overrides, asked)
        if data is not None:
            raise UsageError(f"data= goes with a run file; records alone are crescendo.{call}(x, y)")
        return cls._of_records(call, run, y, model, overrides, name, asked)

    @classmethod
    def _of_file(
        cls, call: str, run: RunFile, data: Any, model: Any, overrides: Sequence[str], keys: Mapping[str, Any]
    ) -> AskedRun:
        if not isinstance(keys.get("test", 0.0), int | float | str):
            raise UsageError(
                "with a run file, give a separate test part with the data: crescendo.dataset(x, y, test=..)"
            )
        if data is not None and isinstance(run, Mapping) and "data" not in run:
            run = {**run, "data": {"source": data.name if isinstance(data, Dataset) else "arrays"}}
        if isinstance(model, str):
            overrides, model = [f"objective.kind={model!r}", *overrides], None
        if "epochs" in keys:
            raise UsageError(
                f"epochs are passes over the records, and a run file counts gradients; write gradients={keys['epochs']} * N, "
                "with N the number of training records"
            )
        config = read(run, overrides)
        private = config.privacy.mechanism != "none" or is_private(keys)
        asked = AskedClients.of(*_records(data), dict(keys), private, config.clients.split)
        if asked.keys:
            more = {"mechanism": "minibatch"} if private and config.privacy.mechanism == "none" else {}
            config = read(put(config.plain(), {**more, **asked.keys}))
        made = None if data is None else _beside(asked, config)
        if made is not None:
            config = asked.beside(call, config, made)
        looks = config.privacy.mechanism == "none" and config.data.scale is not False
        if made is not None and looks and _is_ours(config.objective.kind if model is None else model):
            made = scaled(made)
        return cls(config, made, model)

    @classmethod
    def _of_records(
        cls, call: str, x: Any, y: Any, model: Any, overrides: Sequence[str], name: str, keys: dict[str, Any]
    ) -> AskedRun:
        private, test = is_private(keys), keys.get("test", 0.2)
        made = x if isinstance(x, Dataset) else None
        if made is None and model is None and "label_range" in keys:  # which only regression has
            model = "least-squares"
        numbers = predicts_numbers(model) if made is None else made.classes == NUMBERS
        asked = AskedClients.of(x, y, keys, private)
        x, y, keys = asked.x, asked.y, asked.keys
        if made is None and model is None and not private and "classes" not in keys:  # where labels may be looked at
            numbers = are_numbers(x[y] if is_frame(x) and isinstance(y, str) and y in x else y)
        if private and keys.get("scale"):
            raise ConfigError(
                "scale=True looks at the records, which a private run must not; divide features by public numbers, or state the "
                "ranges of a data frame's columns in schema=.."
            )
        if private and numbers:
            check_public(call, keys, NUMBERS)
            _check_numbers(asked.features, y, keys)
        elif private:
            stated = keys.get("classes") or (stated_classes(y) if made is None else made.stated)
            check_public(call, keys, stated)
            _check_numbers(asked.features, y, keys)
            keys = {**keys, "classes": stated}
        if made is None:
            if y is None and (
                isinstance(x, int | float) or x is None or (hasattr(x, "shape") and "schema" not in keys)
            ):
                raise UsageError(_needed(call, x))
            pair = tuple(test) if isinstance(test, list) and len(test) == 2 and not is_list_of_clients(test) else test
            about = keys if is_frame(x) else {key: value for key, value in keys.items() if key != "scale"}
            made = _made(asked, _about_data(name, about), pair, private, numbers)
        elif y is not None or _OF_ARRAYS & set(keys) - {"scale"} - ({"classes"} if private else set()):
            raise UsageError("a data set has its labels, classes and test part; y, classes and test are for arrays")
        if not isinstance(test, int | float | str):
            keys = {key: value for key, value in keys.items() if key != "test"}
        keys, many = replace(asked, keys=keys).keys_for(call, made, private)
        if keys.get("scale", not private and _is_ours(model)):
            made = scaled(made)
        settled = {name: value for name, value in keys.items() if name not in LENGTH_KEYS}
        raw = run_file(made, keys, model, many)
        if isinstance(y, str):  # so that a new table can be scored without naming it again
            raw["data"]["label"] = y
        config = read(put(raw, settled), overrides)
        if config.privacy.mechanism != "none" and not private:  # its schedule was counted from the records
            raise ConfigError(
                f"overrides ask for privacy after defaults were chosen by a look at the records; say it by keywords, such as "
                f"crescendo.{call}(x, y, mechanism={config.privacy.mechanism!r}, epsilon=1.0, records=1000, ..)"
            )
        return cls(config, made, None if isinstance(model, str) else model)


def _check_overrides(overrides: Any, keys: Mapping[str, Any]) -> None:
    """Refuse overrides that are not texts, or that set a key for which a keyword was given."""
    if isinstance(overrides, str):
        raise UsageError(f"overrides is a list, here [{overrides!r}], not a text")
    if isinstance(overrides, Mapping):
        listed = [f"{key}={value}" for key, value in overrides.items()]
        raise UsageError(f"overrides is a list of texts, here {listed!r:.200}, not a dictionary")
    said = {PATHS[name]: name for name, value in keys.items() if name in PATHS and value is not None}
    for one in overrides:
        path = str(one).partition("=")[0].strip()
        if path in said and said[path] not in ("timing", "optimizer"):
            raise UsageError(f"{path} is said twice, by the keyword {said[path]} and by overrides; leave one out")


def _is_ours(model: Any) -> bool:
    """Return True for one of our regressions, for which scaling the features changes the speed and not the model."""
    return model is None or isinstance(model, LinearModel) or (isinstance(model, str) and model in OBJECTIVES)


def _needed(call: str, given: Any) -> str:
    if is_frame(given):
        return f'labels are missing: name the column that has them, as in crescendo.{call}(frame, "column"), or give them as y'
    if hasattr(given, "shape"):
        return f"labels are missing: crescendo.{call}(x, y) needs one for each record of x"
    return (
        f"crescendo.{call} takes records, as in crescendo.{call}(x, y), the path of a run file or a dict of its tables, not "
        f"{'nothing' if given is None else f'a {type(given).__name__}'}"
    )


def _records(data: Any) -> tuple[Any, Any]:
    """Return the records and labels given with a run file: a data set, a pair (x, y), or a list of clients."""
    if data is None or isinstance(data, Dataset):
        return data, None
    if is_list_of_clients(data):
        return data, None
    if isinstance(data, tuple) and len(data) == 2:
        return data
    raise UsageError(
        f"data is what crescendo.dataset(x, y) makes, or a pair (x, y), not a {type(data).__name__}; to read a file, name it as "
        "data.source in the config"
    )


def _beside(asked: AskedClients, config: Config) -> Dataset:
    """Return the records given with a run file, with the classes and the test share of the file."""
    if isinstance(asked.x, Dataset):
        return asked.x
    return _made(asked, config, config.data.test, config.privacy.mechanism != "none", config.numbers)


def _check_numbers(x: Any, y: Any, keys: Mapping[str, Any]) -> None:
    """Refuse a private run that would have to look at records to turn a data frame's columns into numbers."""
    label = y if isinstance(y, str) else None
    kinds = dict(x.dtypes) if is_frame(x) and "schema" not in keys else {}
    texts = [str(name) for name, kind in kinds.items() if getattr(kind, "kind", "O") not in "biuf" and name != label]
    if texts:
        raise ConfigError(
            f"the columns {', '.join(texts[:6])} of x are no numbers, and a private run must not look at records to make "
            "numbers of them; state what each column becomes with schema=.. (`crescendo data schema` drafts one)"
        )


def _about_data(name: str, keys: Mapping[str, Any]) -> Config:
    """Return a config with only the keywords about records."""
    said = {key: value for key, value in keys.items() if key in _OF_ARRAYS - {"test"} or key == "seed"}
    one = {"rounds": 1, "sizes": {"kind": "constant", "size": 1}, "steps": {"kind": "constant", "eta": 1.0}}
    return read(put({"data": {"source": name}, "clients": {"count": 1}, "schedule": one}, said))


def _made(asked: AskedClients, config: Config, test: Any, private: bool, numbers: bool) -> Dataset:
    """Return records and labels as the data set that a config asks for; with ``numbers`` the labels have no classes."""
    said = config.data
    classes = said.classes or (stated_classes(asked.y) if private else None)
    return dataset(
        asked.x,
        asked.y,
        test=test,
        classes=NUMBERS if numbers else classes,
        name=said.source,
        seed=config.run.seed,
        private=private,
        schema=said.table_schema(),
        keys=said.table_keys(),
        clients=asked.whose,
    )


def with_optimizer(model: Any, keys: Raw, filed: bool = False) -> tuple[Any, Raw]:
    """Put the ``optimizer`` of ``keys`` into the model, or into a network's options; refuse it for a model without one.

    If a run file names the model, reading the file checks that the model takes an optimizer.
    """
    if "optimizer" not in keys:
        return model, keys
    chosen, rest = keys["optimizer"], {name: value for name, value in keys.items() if name != "optimizer"}
    if (model is None and filed) or (isinstance(model, str) and (is_net(model) or library_of(model))):
        return model, {**rest, "optimizer": {"optimiser": optimiser_of("torch", "sgd", chosen, {})}}
    if isinstance(model, NeuralModel):
        if model.optimiser != optimiser_of("torch", "sgd", chosen, {}):
            raise ConfigError(
                "a model that is made already has its optimizer: crescendo.torch.model(net, loss, optimizer=..)"
            )
        return model, rest
    if str(getattr(chosen, "__name__", chosen)).lower() != "sgd":
        raise ConfigError(
            'optimizer is for networks, such as objective="mlp" or a torch module; other models take plain steps, whose sizes '
            "are steps=.."
        )
    return model, rest


def as_model(objective: Any, optimizer: Any = None) -> Any:
    """Turn a torch module, or a class of them, into an objective; return anything else unchanged."""
    torch = sys.modules.get("torch")
    if torch is None:
        return objective
    if not isinstance(objective, torch.nn.Module) and not (
        isinstance(objective, type) and issubclass(objective, torch.nn.Module)
    ):
        return objective
    from crescendo.objectives.neural import torch_model

    return torch_model.model(objective, optimizer=optimizer)
