"""Project: the files of a new project, written from templates."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Literal

from crescendo.config.short_toml import toml_text
from crescendo.errors import ConfigError
from crescendo.projects.whole_folder import check_new, write_folder

if TYPE_CHECKING:
    from crescendo.drafter.bought_schema import BoughtSchema

Kind = Literal["own", "torch", "csv"]
_LONGEST = 60  # letters of a project's name, which the federation has too
_SUFFIX = ".template"
_POLICY = (
    "| `policy.toml` | a client's limits, checked before it joins a federation: the federations and mechanisms it allows, and "
    "its budget |\n"
)
_MODEL = "| `model.py` | the model, for you to change |\n"


@dataclass(frozen=True)
class Project:
    """A finished project: its folder, the names of its files, and notes on its table."""

    folder: Path
    kind: Kind
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    looked_at: tuple[str, ...] = ()  # entries of the private run that were read off records; a person has to state them
    bought: BoughtSchema | None = None  # the paid draft that the private run rests on

    def next_commands(self) -> tuple[str, ...]:
        """Return the commands to type next, in the folder where `new` ran."""
        import shlex

        run, private = (shlex.quote(str(self.folder / name)) for name in ("run.toml", "private.toml"))
        return (
            f"crescendo run {run}",
            f"crescendo run {private}",
            f"crescendo compare {run} --with fedavg --seeds 3",
        )


def new_project(folder: Path, torch: bool = False) -> Project:
    """Make a project with a model to change: in numpy, or a torch module."""
    check_name(folder)
    if torch and importlib.util.find_spec("torch") is None:
        raise ConfigError("a torch project needs torch; install it with pip install 'crescendo-fl[torch]'")
    kind: Kind = "torch" if torch else "own"
    model = "torch:model.py:Net" if torch else "model.py:Model"
    records = f"--model {model} --data digits --part iid --test 0.2"
    joins = {name: f"--state {name} --policy policy.toml {records}" for name in ("alice", "bob")}
    says = "explains its\nepsilon"
    return made_project(folder, kind, joins, _MODEL, dealing="", private_words=says)


def made_project(folder: Path, kind: Kind, joins: Mapping[str, str], rows: str, **more: str) -> Project:
    """Write a project. ``joins`` are the options of each client's `join`; ``rows`` are rows for the README's table of files.

    If every client's options name a policy outside the project, the project has no policy.
    """
    own = any("--policy policy.toml" in join for join in joins.values())
    lines = "\n".join(f"crescendo join 127.0.0.1:7077 --as {name} {join}" for name, join in joins.items())
    values = {"name": folder.name, "federation": toml_text(folder.name), "files": rows + (_POLICY if own else "")}
    values |= {"joins": lines, "terminals": "Three", "alone": "", "paid": "", **more}
    texts = {name: text.substitute(values) for of in ("", kind) for name, text in _templates(of).items()}
    if not own:
        texts.pop("policy.toml")
    texts = {name: _aligned(text) if name.endswith(".toml") else text for name, text in texts.items()}
    write_folder(folder, texts)
    return Project(folder, kind, tuple(sorted(texts)))


def _aligned(text: str) -> str:
    """Align the comments after values in one column, where there is room.

    >>> _aligned('count = 5     # how many') == 'count = 5' + 35 * ' ' + '# how many'
    True
    """
    return re.sub(r"^([^#\n]*\S) {2,}# ", lambda found: f"{found[1]:<43} # ", text, flags=re.MULTILINE)


def check_name(folder: Path) -> None:
    name = folder.name
    if not name or name in (".", "..") or len(name) > _LONGEST or not name.isprintable():
        raise ConfigError(f"a project's name has 1 to {_LONGEST} letters that can be printed, not {name[:80]!r}")
    if name.startswith("-"):
        raise ConfigError(f"a project called {name!r} would be taken for an option; call it something else")
    check_new(folder)


def _templates(of: str) -> dict[str, Template]:
    """Return the templates of a kind, or for an empty kind those of all projects, by the names of their files."""
    place = files("crescendo.projects").joinpath("templates", of)
    return {
        one.name.removesuffix(_SUFFIX): Template(one.read_text(encoding="utf-8"))
        for one in place.iterdir()
        if one.name.endswith(_SUFFIX)
    }
