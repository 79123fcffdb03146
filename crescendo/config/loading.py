"""Loading of run files: from TOML and ``--set`` options to a checked `Config`.

The error for a mistake is one sentence with the key's dotted path, its present value and the values allowed.
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crescendo.config.draft_marks import declare, refuse_override
from crescendo.config.schema import Config
from crescendo.errors import ConfigError
from crescendo.objectives.model_file import library_of
from crescendo.tables import read_toml, show

Raw = dict[str, Any]
ELSEWHERE = "with the clients"  # the data source of a run file that is only served


def read(source: Config | Path | str | Mapping[str, Any], overrides: Sequence[str] = ()) -> Config:
    """Return the checked config of a file, a dict or another config, after applying the ``a.b=c`` overrides.

    >>> schedule = {"rounds": 3, "sizes": {"kind": "constant", "size": 10}, "steps": {"kind": "constant", "eta": 0.1}}
    >>> run_file = {"data": {"source": "a9a"}, "clients": {"count": 5}, "schedule": schedule}
    >>> read(run_file, ["clients.count=2"]).clients.count
    2
    """
    if isinstance(source, Config):
        if not overrides:
            return source
        source = source.plain()
    return _check(_read_raw(source, overrides))


def _read_raw(source: Path | str | Mapping[str, Any], overrides: Sequence[str] = ()) -> Raw:
    """Return the run file as a dict with the overrides applied, not yet checked."""
    folder = None
    if not isinstance(source, Mapping):
        folder = Path(source).parent
        source = read_toml(Path(source), "run file", "check the path")
    raw: Raw = _copy(source)
    for override in overrides:
        _apply(raw, override)
    if folder is not None:
        _anchor(raw, folder)
    _read_schema(raw, folder)
    _as_it_was_meant(raw)
    return raw


_WRITTEN_BY_US = (
    ("run", "wire"),
    ("clients", "shares"),
    ("objective", "dtype"),
    ("schedule", "blocks"),
    ("timing", "resend"),
)


def _as_it_was_meant(raw: Raw) -> None:
    """Set ``clients.combine`` to the sum in a complete run file from before that key existed, when every run summed.

    >>> old = {"run": {"wire": "float32"}, "clients": {"shares": "coin"}, "objective": {"dtype": "float64"}}
    >>> old |= {"schedule": {"blocks": 1}, "timing": {"resend": 1.0}}
    >>> _as_it_was_meant(old)
    >>> old["clients"]
    {'shares': 'coin', 'combine': 'sum'}
    """
    if all(isinstance(table := raw.get(section), dict) and name in table for section, name in _WRITTEN_BY_US):
        raw["clients"].setdefault("combine", "sum")


def read_served(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Return the config of a run file to be served. It may leave out [data] or its source: clients hold the records."""
    raw = _read_raw(path, overrides)
    if isinstance(raw.setdefault("data", {}), dict):
        raw["data"].setdefault("source", ELSEWHERE)
    if isinstance(raw.get("clients"), dict) and isinstance(raw.get("serve"), dict):
        names = raw["serve"].get("names")
        if isinstance(names, list):
            raw["clients"].setdefault("count", len(names))
    return _check(raw)


def read_either(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Return the config of a run file to be simulated, or of one to be served: with [serve] and without a data source."""
    raw = _read_raw(path, overrides)
    data = raw.get("data", {})
    if "serve" in raw and isinstance(data, dict) and data.get("source", ELSEWHERE) == ELSEWHERE:
        return read_served(path, overrides)
    return _check(raw)


def _check(raw: Raw) -> Config:
    config = Config.checked(raw, "a run file has the sections")
    return config if config.draft is None else config.marked()


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _copy(inner) for name, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list | tuple) else value


def _anchor(raw: Raw, folder: Path) -> None:
    """Make paths, which are relative to the run file, absolute, so that the copy in a run's folder works too."""
    for section, name in (("data", "source"), ("data", "folder"), ("serve", "test"), ("objective", "kind")):
        table = raw.get(section)
        value = table.get(name) if isinstance(table, dict) else None
        if not isinstance(value, str) or (name == "kind" and ".py:" not in value):
            continue
        library = value[: len(library_of(value)) + 1] if name == "kind" and library_of(value) else ""
        path, colon, rest = value.removeprefix(library).partition(".py:") if name == "kind" else (value, "", "")
        there = folder / (path + ".py" if colon else path)
        if there.exists() and isinstance(table, dict):
            table[name] = library + str(there.resolve()) + (":" + rest if colon else "")


def _read_schema(raw: Raw, folder: Path | None) -> None:
    """Replace the path of a schema file by its content: the content is a part of the run, the path is not."""
    table = raw.get("data")
    if isinstance(table, dict) and isinstance(table.get("schema"), str):
        path = (folder or Path()) / Path(table["schema"]).expanduser()
        table["schema"] = read_toml(
            path, "schema file", "data.schema names it; `crescendo data schema FILE.csv` drafts one"
        )


# Overrides


def _apply(raw: Raw, override: str) -> None:
    """Apply the override ``a.b=c`` to ``raw``: c is TOML or a bare word; an empty c removes the key.

    >>> raw = {"schedule": {"gradients": 100}}
    >>> for text in ("schedule.gradients=", "schedule.rounds=3", "data.source=a9a"):
    ...     _apply(raw, text)
    >>> raw
    {'schedule': {'rounds': 3}, 'data': {'source': 'a9a'}}
    """
    path, equals, text = override.partition("=")
    names = [name.strip() for name in path.split(".")]
    if not equals or not all(names):
        raise ConfigError(f"--set {override} is not of the form a.b=value; write for example --set clients.count=10")
    refuse_override(names)
    declare(raw, ".".join(names))
    table = raw
    for depth, name in enumerate(names[:-1], 1):
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise ConfigError(
                f"--set {override} sets a key of {'.'.join(names[:depth])}, which is {show(table)} and not a table"
                + _whole_steps(names, text.strip())
            )
    if names[:-1] == ["schedule", "steps"] and table == {"kind": "auto"} and names[-1] != "kind" and text.strip():
        raise ConfigError(
            f'--set {override} needs steps with a kind, and schedule.steps is "auto"{_whole_steps(names, text.strip())}'
        )
    if text.strip():
        table[names[-1]] = toml_value(text.strip(), f"--set {override}")
    else:
        table.pop(names[-1], None)


def _whole_steps(names: Sequence[str], value: str) -> str:
    """Return the advice to write the whole table, for an override of one key where ``schedule.steps`` is not a table.

    >>> _whole_steps(["schedule", "steps", "eta"], "0.1")
    '; write the whole table: schedule.steps={kind="constant",eta=0.1} (one such table for each value of a sweep)'
    """
    known = {"eta": f'{{kind="constant",eta={value}}}', "eta0": f'{{kind="diminishing",eta0={value},beta=0.001}}'}
    if list(names[:-1]) != ["schedule", "steps"] or names[-1] not in known or not value:
        return ""
    return f"; write the whole table: schedule.steps={known[names[-1]]} (one such table for each value of a sweep)"


def toml_value(text: str, option: str) -> Any:
    """Return the value of an option's text: TOML, or a bare word.

    >>> toml_value("3", ""), toml_value("a9a", ""), toml_value("[1, 2]", "")
    (3, 'a9a', [1, 2])
    """
    try:
        parsed = tomllib.loads(f"value = {text}")
        if len(parsed) == 1:
            return parsed["value"]
    except tomllib.TOMLDecodeError:
        if text[0] not in "[{\"'":
            return text
    raise ConfigError(f"{option} has a value that is not valid TOML; quote the whole option in the shell")
