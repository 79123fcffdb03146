"""From a TOML file and ``--set`` options to a checked `Config`, and back.

Every mistake becomes one sentence that names the key by its dotted path, what it is now and what would be right.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from crescendo.config.schema import Config
from crescendo.config.sections import Section, one_of
from crescendo.errors import ConfigError

Raw = dict[str, Any]


def read(source: Config | Path | str | Mapping[str, Any], overrides: Sequence[str] = ()) -> Config:
    """A checked config from a file, a dict or another config, with ``a.b=c`` overrides put on top.

    >>> schedule = {"rounds": 3, "sizes": {"kind": "constant", "size": 10}, "steps": {"kind": "constant", "eta": 0.1}}
    >>> run_file = {"data": {"source": "a9a"}, "clients": {"count": 5}, "schedule": schedule}
    >>> read(run_file, ["clients.count=2"]).clients.count
    2
    """
    if isinstance(source, Config):
        if not overrides:
            return source
        source = plain(source)
    return check(read_raw(source, overrides))


def read_raw(source: Path | str | Mapping[str, Any], overrides: Sequence[str] = ()) -> Raw:
    """The same, not yet checked."""
    folder = None
    if not isinstance(source, Mapping):
        folder = Path(source).parent
        source = _load(Path(source))
    raw: Raw = _copy(source)
    for override in overrides:
        apply(raw, override)
    if folder is not None:
        _anchor(raw, folder)
    return raw


def check(raw: Mapping[str, Any]) -> Config:
    try:
        return Config.model_validate(dict(raw))
    except ValidationError as error:
        raise ConfigError(explain(error, raw)) from None


def plain(config: Config) -> Raw:
    """The config as TOML-ready values, complete but for what has no value."""
    return config.model_dump(mode="json", exclude_none=True)


def write(config: Config) -> str:
    """The text of a complete, re-runnable run file."""
    import tomli_w

    return tomli_w.dumps(plain(config))


def _load(path: Path) -> Raw:
    """UTF-8, with the byte order mark that some editors put first or without."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"there is no run file {path}; check the path") from None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a folder, not a run file; name a .toml file in it") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a text file (byte {error.start} is not UTF-8); a run file is TOML") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {(error.strerror or 'unknown reason').lower()}") from None
    except tomllib.TOMLDecodeError as error:
        reason = str(error)
        raise ConfigError(f"{path} is not valid TOML: {reason[:1].lower()}{reason[1:]}") from None


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _copy(inner) for name, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list | tuple) else value


def _anchor(raw: Raw, folder: Path) -> None:
    """Paths in a run file are seen from the file; made absolute, so that the copy in a run's folder works too."""
    for section, name in (("data", "source"), ("data", "folder"), ("objective", "kind")):
        table = raw.get(section)
        value = table.get(name) if isinstance(table, dict) else None
        if not isinstance(value, str) or (name == "kind" and ".py:" not in value):
            continue
        path, colon, rest = value.partition(".py:") if name == "kind" else (value, "", "")
        there = folder / (path + ".py" if colon else path)
        if there.exists() and isinstance(table, dict):
            table[name] = str(there.resolve()) + (":" + rest if colon else "")


# Overrides


def apply(raw: Raw, override: str) -> None:
    """Put ``a.b=c`` into ``raw``: c is TOML or a bare word; nothing after the ``=`` takes the key out.

    >>> raw = {"schedule": {"gradients": 100}}
    >>> for text in ("schedule.gradients=", "schedule.rounds=3", "data.source=a9a"):
    ...     apply(raw, text)
    >>> raw
    {'schedule': {'rounds': 3}, 'data': {'source': 'a9a'}}
    """
    path, equals, text = override.partition("=")
    names = [name.strip() for name in path.split(".")]
    if not equals or not all(names):
        raise ConfigError(f"--set {override} is not of the form a.b=value; write for example --set clients.count=10")
    table = raw
    for depth, name in enumerate(names[:-1], 1):
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise ConfigError(
                f"--set {override} reaches into {'.'.join(names[:depth])}, which is {show(table)} and has no parts"
            )
    if text.strip():
        table[names[-1]] = _value(text.strip(), override)
    else:
        table.pop(names[-1], None)


def _value(text: str, override: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
        if len(parsed) == 1:
            return parsed["value"]
    except tomllib.TOMLDecodeError:
        if text[0] not in "[{\"'":
            return text
    raise ConfigError(f"--set {override} has a value that is not valid TOML; quote the whole option in the shell")


# Errors


def show(value: Any) -> str:
    """A value as the user's file has it, short enough for a sentence.

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
    return str(value)


def explain(error: ValidationError, raw: Any) -> str:
    """One sentence for the first mistake; a key we do not know goes first, as it often explains a missing one."""
    found = error.errors(include_url=False)
    first = min(found, key=lambda item: item["type"] != "extra_forbidden")
    path, field, model, value = _locate(first["loc"], raw)
    dotted = ".".join(path)
    match first["type"]:
        case "extra_forbidden":
            return _unknown(path, model)
        case "value_error":
            return str(first["ctx"]["error"])
        case "missing":
            right = field.title if field is not None and field.title else f"a table, [{dotted}]"
            return f"{dotted} is missing; add {right}"
        case "union_tag_not_found":
            return f"{dotted}.kind is missing; add {_kinds(field)}"
        case "union_tag_invalid" if isinstance(value, dict):
            kind, kinds = value["kind"], _kinds(field)
            return f"{dotted}.kind must be {kinds}, not {show(kind)}{_nearest(str(kind), _split(kinds))}"
    right = field.title if field is not None and field.title else "a table"
    hint = _nearest(value, _split(right)) if isinstance(value, str) else ""
    return f"{dotted} must be {right}, not {show(value)}{hint}"


def _kinds(field: FieldInfo | None) -> str:
    return one_of(*[kind for kind in map(_kind, _models(field)) if kind])


def _split(words: str) -> list[str]:
    return words.split('"')[1::2]


def _nearest(word: str, words: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, words, 1)
    return f'; did you mean "{close[0]}"?' if close else ""


def _unknown(path: Sequence[str], model: type[Section]) -> str:
    *parents, name = path
    dotted, known = ".".join(path), list(model.model_fields)
    elsewhere = [place for place in keys() if place.rpartition(".")[2] == name and place.count(".") == 1]
    close = difflib.get_close_matches(name, known, 1)
    if close and not (elsewhere and not parents):  # a key without its section is likelier than a misspelt section
        return f"there is no key {dotted}; did you mean {'.'.join([*parents, close[0]])}?"
    if elsewhere:
        return f"there is no key {dotted}; did you mean {elsewhere[0]}?"
    where = f"[{'.'.join(parents)}] has" if parents else "a run file has the sections"
    return f"there is no key {dotted}; {where} {', '.join(known)}"


def _locate(loc: Sequence[int | str], raw: Any) -> tuple[list[str], FieldInfo | None, type[Section], Any]:
    """Follow pydantic's location through the user's own values: it also names unions and spelled-out tables."""
    path: list[str] = []
    model: type[Section] = Config
    field: FieldInfo | None = None
    choices: list[type[Section]] = []  # after a key that may hold one of several tables, pydantic names the kind
    for step in loc:
        chosen = next((choice for choice in choices if _kind(choice) == step), None)
        choices = []
        if not isinstance(raw, dict):
            break  # a number in a list, or the spelled-out form of a short one: the key itself is to blame
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
    return list(_sections(field.annotation)) if field is not None else []


def _sections(annotation: Any) -> Iterator[type[Section]]:
    if get_origin(annotation) in (Union, UnionType, Annotated):
        for part in get_args(annotation):
            yield from _sections(part)
    elif isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation


def keys(model: type[Section] = Config, before: str = "") -> dict[str, FieldInfo]:
    """Every key of a run file by its dotted path; the tables of a kind as ``schedule.sizes.power.scale``."""
    found: dict[str, FieldInfo] = {}
    for name, field in model.model_fields.items():
        if name == "kind" and field.title is None:
            continue
        inner = _models(field)
        if not inner or before:
            found[before + name] = field
        for part in inner:
            tagged = f"{_kind(part)}." if _kind(part) else ""
            found.update(keys(part, f"{before}{name}.{tagged}"))
    return found
