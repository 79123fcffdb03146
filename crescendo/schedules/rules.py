"""Registry of declared rules: the kinds of one family by name, with their keys in a run file."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass
from typing import Any, Generic, TypeVar

from crescendo.errors import UsageError
from crescendo.schedules.parameters import Declared, Parameter, Range, parameters

Rule = TypeVar("Rule", bound=Declared)


@dataclass(frozen=True)
class Kind(Generic[Rule]):
    """A rule and its name. The run supplies a key that may be left out although the class requires it."""

    name: str
    rule: type[Rule]
    keys: tuple[Parameter, ...]

    def make(self, values: Mapping[str, Any], given_by_run: Callable[[str], Any] | None = None) -> Rule:
        """Make the rule with these values; ``given_by_run`` supplies each missing value that has no default."""
        given = {name: value for name, value in values.items() if value is not None}
        for one in parameters(self.rule):
            if one.name not in given and one.default is MISSING and given_by_run is not None:
                given[one.name] = given_by_run(one.name)
        return self.rule(**given)


class Registry(Generic[Rule]):
    """The kinds of one family, in order of registration."""

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
        """Add a kind. ``left_out`` has the defaults of omitted keys, None for those that the run supplies.

        ``within`` has ranges narrower than the class's own.
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
