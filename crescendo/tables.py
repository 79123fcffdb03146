"""Checked tables of TOML files: their keys with descriptions, and a one-sentence error for a mistake.

Run files, policies and the schedule of terms consist of them. An error names the key by its dotted path, with its present value
and the values allowed.
"""

import difflib
import functools
import tomllib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Self, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError, core_schema

from crescendo.errors import ConfigError

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)

COUNT = "a whole number of at least 1"
WHOLE = "a whole number of at least 0"
POSITIVE = "a number above 0"
NOT_NEGATIVE = "a number of at least 0"
FLAG = "true or false"
NUMBER = "a number"


def key(default: Any, right: str, says: str, **limits: Any) -> Any:
    """Declare a key of a file: ``right`` completes "must be ..", ``says`` is its line in the reference."""
    return Field(default, title=right, description=says, **limits)


def one_of(*words: str) -> str:
    """
    >>> one_of("slot", "round")
    '"slot" or "round"'
    """
    quoted = [f'"{word}"' for word in words]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]]) if len(quoted) > 1 else quoted[0]


AS_TUPLE = BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
"""Turns a list into a tuple, which TOML and JSON lack."""


def number_as(name: str) -> BeforeValidator:
    """Accept a bare number as short for ``{kind = "constant", <name> = number}``, and a list for ``{kind = "list", ..}``."""

    def spell_out(value: object) -> object:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return {"kind": "constant", name: value}
        return {"kind": "list", "values": value} if isinstance(value, list) else value

    return BeforeValidator(spell_out)


class _TableClass(ModelMetaclass):
    """Permits a key called ``schema`` in our tables: pydantic warns of it for the sake of a method that it has deprecated."""

    def __new__(cls, *parts: Any, **options: Any) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", 'Field name "schema" in ', UserWarning)
            return super().__new__(cls, *parts, **options)


class Section(BaseModel, metaclass=_TableClass):
    """A strict table: "3" is not a number and 1 is not a boolean, since TOML distinguishes them."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @classmethod
    def checked(cls, raw: Any, what: str) -> Self:
        """Check plain data and return the table, or raise ConfigError with one sentence. ``what`` begins a list of its keys."""
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            raise ConfigError(_explain(error, raw, cls, what)) from None

    @classmethod
    def every_key(cls, before: str = "") -> dict[str, FieldInfo]:
        """Return every key of a file by its dotted path; a key of a kind's table is ``schedule.sizes.power.scale``."""
        found: dict[str, FieldInfo] = {}
        for name, field in cls.model_fields.items():
            if name == "kind" and field.title is None:
                continue
            inner = _models(field)
            if not inner or before:
                found[before + name] = field
            for part in inner:
                tagged = f"{_kind(part)}." if _kind(part) else ""
                found.update(part.every_key(f"{before}{name}.{tagged}"))
        return found


@dataclass(frozen=True)
class KindOf:
    """A note on a key: its value is one of several tables with a ``kind``, which are registered before a file is read."""

    models: Callable[[], tuple[type[Section], ...]]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self._chosen)

    def _chosen(self, value: object) -> Any:
        return _choice(self.models()).validate_python(value)


@dataclass(frozen=True)
class KnownWord:
    """A note on a key: its word, or each word of its list, is among the words registered by the time a file is read.

    ``right`` lists them, to complete "must be ..".
    """

    known: Callable[[str], bool]
    right: Callable[[], str]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def _checked(self, value: Any) -> Any:
        if not all(self.known(word) for word in ([value] if isinstance(value, str) else value)):
            raise PydanticCustomError("not_registered", "not registered")
        return value


def right_of(field: FieldInfo) -> str | None:
    """Return the allowed values of a key, to complete "must be .."."""
    late = [note for note in field.metadata if isinstance(note, KnownWord)]
    return late[0].right() if late else field.title


@functools.cache
def _choice(models: tuple[type[Section], ...]) -> TypeAdapter[Any]:
    one: Any = Annotated[Union[models], Field(discriminator="kind")]  # noqa: UP007
    return TypeAdapter(one)


_DATA = (".csv", ".tsv", ".npz", ".npy", ".parquet", ".svm", ".libsvm")


def read_toml(path: Path, what: str, hint: str) -> dict[str, Any]:
    """Read a TOML file in UTF-8, with or without a byte order mark. Raise ConfigError, with the ``hint``, if it is not one."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"there is no {what} {path}; {hint}") from None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a folder, not a {what}; name a .toml file in it") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a text file (byte {error.start} is not UTF-8); a {what} is TOML") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {(error.strerror or 'unknown reason').lower()}") from None
    except tomllib.TOMLDecodeError as error:
        if path.suffix.lower() in _DATA:
            raise ConfigError(f"{path} is a data file, not a {what}; a run file names it as data.source") from None
        reason = str(error)
        raise ConfigError(f"{path} is not valid TOML: {reason[:1].lower()}{reason[1:]}") from None
    except (RecursionError, ValueError):  # deeply nested tables, or a number with thousands of digits
        raise ConfigError(f"{path} is nested too deeply, or has a number that is too long; {hint}") from None


def show(value: Any) -> str:
    """Return a value as written in a file, short enough for a sentence.

    >>> print(show(True), show("a"), show([1, 2]), show({"a": 1}), show("x" * 99))
    true "a" [1, 2] a table "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(show(inner) for inner in value[:5]) + (", ..]" if len(value) > 5 else "]")
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= 40 else f'"{value[:36]}..."'
    return f"a {type(value).__name__}" if hasattr(value, "shape") else str(value)  # arrays may be records


def _explain(error: ValidationError, raw: Any, whole: type[Section], what: str) -> str:
    """Return a sentence on the first mistake. An unknown key comes first, as it often explains a missing one."""
    found = error.errors(include_url=False)
    first = min(found, key=lambda item: item["type"] != "extra_forbidden")
    path, field, model, value = _locate(first["loc"], raw, whole)
    dotted = ".".join(path)
    match first["type"]:
        case "extra_forbidden":
            return _unknown(path, model, whole, what)
        case "value_error":
            return str(first["ctx"]["error"])
        case "missing":
            right = (right_of(field) if field is not None else None) or f"a table, [{dotted}]"
            return f"{dotted} is missing; add {right}"
        case "union_tag_not_found":
            return f"{dotted}.kind is missing; add {_kinds(field)}"
        case "union_tag_invalid" if isinstance(value, dict):
            kind, kinds = value["kind"], _kinds(field)
            return f"{dotted}.kind must be {kinds}, not {show(kind)}{_nearest(str(kind), _split(kinds))}"
    right = (right_of(field) if field is not None else None) or "a table"
    hint = _nearest(value, _split(right)) if isinstance(value, str) else ""
    return f"{dotted} must be {right}, not {show(value)}{hint}"


def _kinds(field: FieldInfo | None) -> str:
    return one_of(*[kind for kind in map(_kind, _models(field)) if kind])


def _split(words: str) -> list[str]:
    return words.split('"')[1::2]


def _nearest(word: str, words: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, words, 1)
    return f'; did you mean "{close[0]}"?' if close else ""


def _unknown(path: Sequence[str], model: type[Section], whole: type[Section], what: str) -> str:
    *parents, name = path
    dotted, known = ".".join(path), list(model.model_fields)
    elsewhere = [place for place in whole.every_key() if place.rpartition(".")[2] == name and place.count(".") == 1]
    close = difflib.get_close_matches(name, known, 1)
    if close and not (elsewhere and not parents):  # a key without its section is likelier than a misspelt section
        return f"there is no key {dotted}; did you mean {'.'.join([*parents, close[0]])}?"
    if elsewhere:
        return f"there is no key {dotted}; did you mean {elsewhere[0]}?"
    where = f"[{'.'.join(parents)}] has" if parents else what
    return f"there is no key {dotted}; {where} {', '.join(known)}"


def _locate(
    loc: Sequence[int | str], raw: Any, whole: type[Section]
) -> tuple[list[str], FieldInfo | None, type[Section], Any]:
    """Follow pydantic's location, which also names unions and spelled-out tables, through the user's values."""
    path: list[str] = []
    model = whole
    field: FieldInfo | None = None
    choices: list[type[Section]] = []  # after a key that may hold one of several tables, pydantic names the kind
    for step in loc:
        chosen = next((choice for choice in choices if _kind(choice) == step), None)
        choices = []
        if not isinstance(raw, dict) or (field is not None and not _models(field)):
            break  # a number in a list, the spelled-out form of a short one, or a missing table: report the key itself
        if chosen is not None:
            model = chosen
            continue
        path.append(str(step))
        raw = raw.get(str(step))
        field = model.model_fields.get(str(step))
        choices = [choice for choice in _models(field) if _kind(choice)]
        model = next(iter(_models(field)), model)
    return path, field, model, raw


def _kind(model: type[Section]) -> str | None:
    tag = model.model_fields.get("kind")
    return next(iter(get_args(tag.annotation)), None) if tag is not None else None


def _models(field: FieldInfo | None) -> list[type[Section]]:
    if field is None:
        return []
    late = [note for note in field.metadata if isinstance(note, KindOf)]
    return list(late[0].models()) if late else list(_sections(field.annotation))


def _sections(annotation: Any) -> Iterator[type[Section]]:
    if get_origin(annotation) is Annotated and isinstance(late := annotation.__metadata__[0], KindOf):
        yield from late.models()
    elif get_origin(annotation) in (Union, UnionType, Annotated):
        for part in get_args(annotation):
            yield from _sections(part)
    elif isinstance(annotation, type) and issubclass(annotation, Section) and annotation is not Section:
        yield annotation
