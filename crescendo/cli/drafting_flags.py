"""The flags and the output of `data schema --epsilon`: flags become a request, and a paid draft becomes words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from crescendo.cli.common import print_json
from crescendo.errors import ConfigError

if TYPE_CHECKING:
    from crescendo.drafter.bought_schema import BoughtSchema
    from crescendo.drafter.draft_request import DraftRequest

_SHARE = 10  # of the policy's delta goes to a draft, one part


@dataclass(frozen=True)
class DraftFlags:
    """The flags beside --epsilon, as they were typed."""

    label: str | None
    delta: float | None
    policy: Path | None
    state: Path | None
    bounds: list[str]
    values: list[str]
    numbers: list[str]
    categories: list[str]
    drop: list[str]
    classes: str | None
    label_range: str | None
    records: int | None

    def check_public(self) -> None:
        """Refuse flags that mean something for private records alone."""
        given = [name for name in vars(self) if name != "label" and getattr(self, name) not in (None, [])]
        if given:
            flag = given[0].replace("_", "-")
            raise ConfigError(
                f"--{flag} is for a draft from private records; add --epsilon, or leave it out and edit the draft"
            )

    def bought(self, file: Path, epsilon: float, out: Path | None) -> ShownDraft:
        """The draft, paid for; refused before that if its file could not be written."""
        from crescendo.drafter.bought_schema import BoughtSchema
        from crescendo.drafter.charged_draft import charged_draft
        from crescendo.federation.policy import Policy

        if self.policy is None:
            raise ConfigError(
                "a draft from private records is charged to their ledger; name the policy that says their budget with "
                "--policy policy.toml (`crescendo join --help` shows one), and the folder of the ledger with --state DIR"
            )
        if out is not None and out.exists():
            raise ConfigError(f"{out} exists already; name another file with --out, or remove it")
        policy = Policy.read(self.policy)
        if policy.epsilon is None:
            raise ConfigError(f"the policy {self.policy} has no epsilon and delta, so nothing may be spent; add both")
        request = self._request(epsilon, policy.delta)
        made = BoughtSchema(file, charged_draft(file, request, policy, self.state), request)
        return ShownDraft(made, out)

    def _request(self, epsilon: float, whole: float | None) -> DraftRequest:
        from crescendo.drafter.draft_request import DraftRequest

        delta = self.delta if self.delta is not None else (whole or 0.0) / _SHARE
        return DraftRequest(
            epsilon,
            delta,
            self.label,
            bounds={name: _range(f"--bounds {name}", text) for name, text in _named("--bounds", self.bounds).items()},
            values={name: _list(text) for name, text in _named("--values", self.values).items()},
            numbers=tuple(self.numbers),
            categories=tuple(self.categories),
            drop=tuple(self.drop),
            classes=None if self.classes is None else _list(self.classes),
            label_range=None if self.label_range is None else _range("--label-range", self.label_range),
            records=self.records,
        )


@dataclass(frozen=True)
class ShownDraft:
    """A paid draft, to be shown to a person or a program."""

    made: BoughtSchema
    out: Path | None

    def show(self, as_json: bool) -> None:
        """Write the file, and say its price."""
        out = self.out
        from crescendo.cli.terminal import Printer
        from crescendo.config.schema_file import write_schema

        text = self.made.text
        if out is not None:
            write_schema(out, text)
        if as_json:
            print_json({**self.made.to_json(), "written": None if out is None else str(out)})
            return
        if out is None:
            typer.echo(text, nl=False)
            for sentence in self.made.sentences(None):
                typer.echo(f"crescendo: {sentence}", err=True)
            return
        printer = Printer()
        for sentence in self.made.sentences(out):
            printer.say(sentence)
        typer.echo(self.made.for_a_run_file(out), nl=False)


def _named(flag: str, given: list[str]) -> dict[str, str]:
    """``COLUMN=..``, in which a column may have an equals sign in its name."""
    found = dict[str, str]()
    for text in given:
        name, _, stated = text.rpartition("=")
        if not name:
            raise ConfigError(f"{flag} is written {flag} COLUMN=.., not {text!r:.60}")
        if name in found:
            raise ConfigError(f"{flag} names '{name:.60}' twice; state each column once")
        found[name] = stated
    return found


def _range(flag: str, text: str) -> tuple[float, float]:
    low, _, high = text.partition(":")
    try:
        return float(low), float(high)
    except ValueError:
        raise ConfigError(f"{flag} takes two numbers, 0:100 say, not {text!r:.60}") from None


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
