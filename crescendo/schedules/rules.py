"""Registry of declared rules: the kinds of one family by name, with the keys that each has in a run file."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass
from typing import Any, Generic, TypeVar

from crescendo.errors import UsageError
from crescendo.schedules.parameters import Declared, Parameter, Range, parameters

Rule = TypeVar("Rule", bound=Declared)


@dataclass(frozen=True)
class Kind(Generic[Rule]):
    """A rule under its name. A key that may be left out although the class asks for it is given by the run."""

    name: str
    rule: type[Rule]
    keys: tuple[Parameter, ...]

    def make(self, values: Mapping[str, Any], given_by_run: Callable[[str], Any] | None = None) -> Rule:
        """The rule with these values; ``given_by_run`` is asked for each that is missing and has no default."""
        given = {name: value for name, value in values.items() if value is not None}
        for one in parameters(self.rule):
            if one.name not in given and one.default is MISSING and given_by_run is not None:
                given[one.name] = given_by_run(one.name)
        return self.rule(**given)


class Registry(Generic[Rule]):
    """The kinds of one family, in the order in which they were registered."""

    def __init__(self, base: type[Rule]) -> None:
        self._base = base
        self._kinds: dict[str, Kind[Rule]] = {}

    def register(
        self,
        name: str,
        rule: type[Rule],
        left_out: Mapping[str, Any] | None = None,
        within: Mapping[str, Range] | None = None,
    ) -> None:
        """Add a kind. ``left_out`` is what a key is when it is left out, None for what the run gives; ``within`` is a narrower
        range than the class takes.
        """
        if name in self._kinds or not issubclass(rule, self._base):
            raise UsageError(f"{rule.__name__} must be a {self._base.__name__} with a name of its own, not {name!r}")
        keys = (
            dataclasses.replace(
                one, default=(left_out or {}).get(one.name, one.default), range=(within or {}).get(one.name, one.range)
            )
            for one in parameters(rule)
            if one.says is not None
        )
        self._kinds[name] = Kind(name, rule, tuple(keys))

    def unregister(self, name: str) -> None:
        del self._kinds[name]

    def __getitem__(self, name: str) -> Kind[Rule]:
        return self._kinds[name]

    def __iter__(self) -> Iterator[Kind[Rule]]:
        return iter(self._kinds.values())
