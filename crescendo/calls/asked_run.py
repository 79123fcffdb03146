"""What a call asks for: a run file or records in memory, with keywords put over the run file's keys."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from crescendo.calls.array_run import check_public, is_private, run_file, stated_classes
from crescendo.calls.keywords import known, put
from crescendo.config.loading import read
from crescendo.config.schema import Config
from crescendo.data import Dataset
from crescendo.data.from_arrays import dataset
from crescendo.errors import UsageError


class Shaped(Protocol):
    """A numpy array, data frame, sparse matrix or tensor."""

    @property
    def shape(self) -> Any: ...


RunFile: TypeAlias = Config | Path | str | Mapping[str, Any]
Rows: TypeAlias = Dataset | Shaped | Iterable[Any]
Data: TypeAlias = Dataset | tuple[Any, Any] | None


@dataclass(frozen=True, eq=False)
class AskedRun:
    """A checked config, and the records and the model that a program has in memory instead of a file."""

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
        """From the arguments of ``crescendo.<call>``, or UsageError in a sentence for what is neither run nor records."""
        if isinstance(overrides, str):
            raise UsageError(f"overrides is a list, here [{overrides!r}], not a text")
        asked, model = known(keys, call), _model(objective)
        if isinstance(model, str):
            kind, model = model, None
            overrides = [f"objective.kind={kind!r}", *overrides]
        if isinstance(run, Config | Path | str | Mapping):
            if y is not None:
                raise UsageError(
                    f"y goes with x, as in crescendo.{call}(x, y); beside a run file records are data=(x, y) and a model is "
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
        if isinstance(keys.get("test"), tuple | list):
            raise UsageError(
                "beside a run file a test part of its own is part of the data: crescendo.dataset(x, y, test=..)"
            )
        if data is not None and isinstance(run, Mapping) and "data" not in run:
            run = {**run, "data": {"source": data.name if isinstance(data, Dataset) else "arrays"}}
        config = read(run, overrides)
        if keys:
            private = config.privacy.mechanism != "none" or not is_private(keys)
            config = read(put(config.plain(), {**({} if private else {"mechanism": "minibatch"}), **keys}))
        return cls(config, _dataset(call, data, config), model)

    @classmethod
    def _of_records(
        cls, call: str, x: Any, y: Any, model: Any, overrides: Sequence[str], name: str, keys: dict[str, Any]
    ) -> AskedRun:
        private, test = is_private(keys), keys.get("test", 0.2)
        made = x if isinstance(x, Dataset) else None
        if private:
            stated = keys.get("classes") or (stated_classes(y) if made is None else made.classes)
            check_public(keys, stated)
            keys = {**keys, "classes": stated}
        if made is None:
            if y is None and (isinstance(x, int | float) or x is None or hasattr(x, "shape")):
                raise UsageError(_needed(call, x))
            seed, classes = keys.get("seed", 0), keys.get("classes")
            pair = tuple(test) if isinstance(test, list) else test
            made = dataset(x, y, test=pair, classes=classes, name=name, seed=seed, private=private)
        elif y is not None or {"test", "classes"} & set(keys) - ({"classes"} if private else set()):
            raise UsageError("a data set has its labels, classes and test part; y, classes and test are for arrays")
        if isinstance(test, list | tuple):
            keys.pop("test")
        config = read(put(run_file(made, keys, model is not None), keys), overrides)
        return cls(config, made, model)


def _needed(call: str, given: Any) -> str:
    if hasattr(given, "shape"):
        return f"labels are missing: crescendo.{call}(x, y) needs one for each record of x"
    return (
        f"crescendo.{call} takes records, as in crescendo.{call}(x, y), the path of a run file or a dict of its tables, not "
        f"{'nothing' if given is None else f'a {type(given).__name__}'}"
    )


def _dataset(call: str, data: Any, config: Config) -> Dataset | None:
    """Records beside a run file; of a pair (x, y) the run file says which classes and what share are for testing."""
    if data is None or isinstance(data, Dataset):
        return data
    if isinstance(data, tuple) and len(data) == 2:
        private, asked = config.privacy.mechanism != "none", config.data
        classes = asked.classes or (stated_classes(data[1]) if private else None)
        return dataset(
            *data, test=asked.test, classes=classes, name=asked.source, seed=config.run.seed, private=private
        )
    raise UsageError(
        f"data is what crescendo.dataset(x, y) makes, or a pair (x, y), not a {type(data).__name__}; to read a file, name it as "
        "data.source in the config"
    )


def _model(objective: Any) -> Any:
    """A torch module as an objective; anything else as it is."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(objective, torch.nn.Module):
        return objective
    from crescendo.objectives.neural import torch_model

    return torch_model.model(objective)
