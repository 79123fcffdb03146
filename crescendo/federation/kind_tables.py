"""Tables of registered kinds: turns a rule's declared parameters into table keys, and a table into a rule."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import MISSING
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BeforeValidator, Field, create_model

from crescendo.errors import ConfigError, UsageError
from crescendo.schedules.gamma import Gamma
from crescendo.schedules.kinds import GAMMAS
from crescendo.schedules.parameters import Parameter, Range
from crescendo.schedules.rules import Kind, Registry
from crescendo.tables import AS_TUPLE, KindOf, Section, key, number_as


def tables(registry: Registry[Any], *more: type[Section], **common: Any) -> KindOf:
    """Return the type of a table of any registered kind, or of ``more``; every registered kind has the ``common`` keys."""
    return KindOf(lambda: (*(_table(kind, tuple(common.items())) for kind in registry), *more))


@functools.cache
def _table(kind: Kind[Any], common: tuple[tuple[str, Any], ...]) -> type[Section]:
    keys: dict[str, Any] = {"kind": (Literal[kind.name], ...)}
    keys |= {one.name: (_type(one), _key(one)) for one in kind.keys}
    return create_model(kind.rule.__name__, __base__=Section, **keys, **dict(common))


def _key(one: Parameter) -> Any:
    default = ... if one.default is MISSING else one.default
    return key(default, one.range.right(one.hint), one.says or "")


def _type(one: Parameter) -> Any:
    if one.hint is Gamma:
        return _GAMMA
    found = _limited(one.hint, one.range)
    return found | None if one.default is None else found


def _limited(hint: Any, limits: Range) -> Any:
    """Return the type with limits on every number in it; TOML writes tuples as lists."""
    if get_origin(hint) is tuple:
        parts = tuple(part if part is ... else _limited(part, limits) for part in get_args(hint))
        return Annotated[tuple[parts], AS_TUPLE, Field(min_length=1)]  # type: ignore[valid-type]
    if get_origin(hint) in (Union, UnionType):
        return Union[tuple(_limited(part, limits) for part in get_args(hint))]  # noqa: UP007
    return Annotated[hint, Field(ge=limits.least, gt=limits.above, le=limits.most)] if hint in (int, float) else hint


@contextlib.contextmanager
def at(where: str) -> Iterator[None]:
    """Prefix a rule's UsageError with the place of its parameter in the run file."""
    try:
        yield
    except ConfigError:
        raise
    except UsageError as error:
        if type(error) is not UsageError:
            raise
        raise ConfigError(f"{where}: {error}") from None


def made(registry: Registry[Any], table: Any, where: str, given_by_run: Callable[[str], Any] | None = None) -> Any:
    """Make the rule of the table at ``where``; ``given_by_run`` as for `Kind.make`."""
    kind = registry[table.kind]
    values = {one.name: getattr(table, one.name) for one in kind.keys}
    values |= {name: made(GAMMAS, value, where) for name, value in values.items() if isinstance(value, Section)}
    with at(where):
        return kind.make(values, given_by_run)


WORD_AS_KIND = BeforeValidator(lambda value: {"kind": value} if isinstance(value, str) else value)
_GAMMA = Annotated[Section, tables(GAMMAS), number_as("value"), WORD_AS_KIND]
