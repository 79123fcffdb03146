"""The clients of a call's records, from ``x``, ``clients`` and ``split`` together, and the run file's keys for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from crescendo.calls.keywords import put
from crescendo.config.loading import read
from crescendo.config.schema import Config
from crescendo.data import Dataset, client_names
from crescendo.data.memory.given_clients import Owners, declared_by_name, free_name, joined
from crescendo.data.partition import CLIENT
from crescendo.data.tables.table_files import is_frame
from crescendo.errors import ConfigError, UsageError

Keys = dict[str, Any]
_COLUMN = "column:"


@dataclass(frozen=True, eq=False)
class AskedClients:
    """Records with their labels, and ``whose`` in a form for `crescendo.dataset`: `Owners`, ids, a column's name or None.

    ``keys`` are the keywords without those about clients that ``whose`` settles. ``stated`` is the number of clients, if a person
    gave it.
    """

    x: Any
    y: Any
    whose: Any
    keys: Keys
    stated: int | None = None

    @classmethod
    def of(cls, x: Any, y: Any, keys: Keys, private: bool, rule: str | None = None) -> Self:
        """Read a call's arguments; ``rule`` is the split of the run file given with them. Refuse arguments that disagree."""
        if isinstance(x, Dataset):
            return cls(x, y, None, keys, _number(keys.get("clients")))
        found, given, split = joined(x, y, private), keys.get("clients"), keys.get("split", rule)
        column = split.removeprefix(_COLUMN) if isinstance(split, str) and split.startswith(_COLUMN) else None
        made = cls(found.x, found.y, None, keys, _number(given))
        if found.owners is not None:
            many = len(set(found.owners.tolist()))
            _check_said_once(given, many, keys)
            return replace(made, whose=Owners(column or free_name(found.x), found.owners), stated=many)._settled()
        if given is None or made.stated is not None:
            return made if column is None else replace(made, whose=column)._settled()
        if isinstance(given, str) and is_frame(found.x):
            return replace(made, whose=given)._settled()
        several: Any = given
        if not (isinstance(several, list | tuple) or getattr(several, "shape", None) or hasattr(several, "__array__")):
            return made  # not a number of clients either: the config refuses it
        if found.x is None:
            raise UsageError(
                "clients=ids assigns records in memory to clients; give these records with the run file, too: data=(x, y)"
            )
        _check_ids(keys, rule)
        from crescendo.data.memory.plain_arrays import as_array

        return replace(made, whose=Owners(column or CLIENT, as_array(given)))._settled()

    def _settled(self) -> Self:
        gone = {name: value for name, value in self.keys.items() if name not in ("clients", "split")}
        return replace(self, keys=gone)

    @property
    def features(self) -> Any:
        """The records without their client column."""
        named = isinstance(self.whose, str) and is_frame(self.x) and self.whose in self.x.columns
        return self.x.drop(columns=[self.whose]) if named else self.x

    def keys_for(self, call: str, made: Dataset, private: bool) -> tuple[Keys, int | None]:
        """Return the keywords with the split of ``made``, and the number of its clients; None if keywords alone set them.

        The number of clients of a private run is public, so it is never counted.
        """
        keys, column = self.keys, made.client_column
        if column is None or (isinstance(self.x, Dataset) and keys.keys() & {"clients", "split"}):
            _check_records(keys)
            return keys, None
        rule = f"{_COLUMN}{column}"
        many = len(np.unique(made.columns[column]))
        names = client_names(made, many, rule)
        if isinstance(keys.get("records"), Mapping):
            keys = {**keys, "records": declared_by_name(keys["records"], names)}
        stated = self.stated
        if private and stated is None:
            if not isinstance(keys.get("records"), list):
                some = ", ".join([f"{name!r}: 1000" for name in names[:2]] + [".."] * (many > 2))
                raise ConfigError(
                    f"a private run states how many clients there are and counts none of them; declare the records of each, as "
                    f"in crescendo.{call}(.., records={{{some}}})"
                )
            stated = len(keys["records"])
        return {**keys, "split": rule, **({} if stated is None else {"clients": stated})}, many

    def beside(self, call: str, config: Config, made: Dataset) -> Config:
        """Return the run file that was given with the records of ``made``, with their clients in it."""
        rule, private = config.clients.split, config.privacy.mechanism != "none"
        if (
            made.client_column is None
            or rule == f"{_COLUMN}{made.client_column}"
            or self.keys.keys() & {"clients", "split"}
        ):
            return config
        if rule != "iid":
            raise UsageError(
                f"the records come with their clients, and the run file splits them too: clients.split = {rule!r}; leave that out"
            )
        found, many = self.keys_for(call, made, private)
        said: Keys = {name: found[name] for name in ("split", "clients", "records") if name in found}
        asked = read(put(config.plain(), {"clients": many, **said}))
        return asked if "clients" in said else asked.marked("clients.count")


def _number(clients: Any) -> int | None:
    return clients if isinstance(clients, int) and not isinstance(clients, bool) else None


def _check_said_once(given: Any, many: int, keys: Keys) -> None:
    if "split" in keys:
        raise UsageError(f"x has the records of {many} clients, so that nothing is left to split; leave split out")
    if given is not None and given != many:
        raise UsageError(f"x has the records of {many} clients, so that clients would say it twice; leave clients out")


def _check_ids(keys: Keys, rule: str | None) -> None:
    if "split" in keys and keys["split"] != rule:
        raise UsageError("clients says which client has each record, so that nothing is left to split; leave split out")


def _check_records(keys: Keys) -> None:
    if isinstance(keys.get("records"), Mapping):
        raise UsageError(
            "records by name are for records that come with their clients, as clients=ids; declare one number for all, or a "
            "list"
        )
