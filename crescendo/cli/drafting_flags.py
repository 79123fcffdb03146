"""Flags of `new` and `data schema` that state public facts or buy a private draft, and the output of `data schema --epsilon`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crescendo.cli.common import print_json
from crescendo.errors import ConfigError

if TYPE_CHECKING:
    from crescendo.drafter.bought_schema import BoughtSchema

Ranges = Annotated[
    list[str] | None,
    typer.Option(
        "--range",
        metavar="COLUMN=LOW:HIGH",
        help="State the range of a column, from public knowledge; may be repeated.",
    ),
]
Values = Annotated[
    list[str] | None,
    typer.Option(
        "--values",
        metavar="COLUMN=a,b,c",
        help="State the values that a column can have, from public knowledge; may be repeated.",
    ),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="COLUMN=KIND",
        help="State how a column's numbers are written: money, money:EUR, percent, thousands or unit:kg; may be repeated.",
    ),
]
Records = Annotated[
    int | None,
    typer.Option(metavar="N", help="State about how many records the table has, if that is public."),
]
Delta = Annotated[float | None, typer.Option(help="The delta of that epsilon; by default a tenth of the policy's.")]
PolicyFile = Annotated[
    Path | None, typer.Option(metavar="FILE.toml", help="With --epsilon: the policy, as for `crescendo join`.")
]
StateFolder = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="With --epsilon: the folder of the ledger, unless the policy names it."),
]


@dataclass(frozen=True)
class DraftFlags:
    """The flags that go with --epsilon, as typed."""

    label: str | None
    delta: float | None
    policy: Path | None
    state: Path | None
    range: list[str]
    values: list[str]
    numbers: list[str]
    categories: list[str]
    drop: list[str]
    records: int | None
    kind: list[str]

    def check_public(self) -> None:
        """Refuse flags that are for private records only."""
        given = [name for name in vars(self) if name != "label" and getattr(self, name) not in (None, [])]
        if given:
            raise ConfigError(
                f"--{given[0]} is for a draft from private records; add --epsilon, or leave it out and edit the draft"
            )

    def bought(self, file: Path, epsilon: float, out: Path | None) -> ShownDraft:
        """Charge a draft to the ledger and return it. Refuse to, before charging, if the file to write exists."""
        from crescendo.data.tables.stated_columns import stated_columns, stated_kinds
        from crescendo.drafter.charged_draft import table_file
        from crescendo.drafter.draft_request import DraftRequest
        from crescendo.drafter.payment import Payment

        payment = Payment.of(epsilon, self.delta, self.policy, self.state)
        if out is not None and out.exists():
            raise ConfigError(f"{out} exists already; name another file with --out, or remove it")
        header = table_file(file).names()
        request = DraftRequest(
            payment.epsilon,
            payment.delta,
            self.label,
            stated_columns(header, self.range, self.values),
            tuple(self.numbers),
            tuple(self.categories),
            tuple(self.drop),
            self.records,
            stated_kinds(header, self.kind),
        )
        return ShownDraft(payment.buy(file, request), out)


@dataclass(frozen=True)
class ShownDraft:
    """A paid draft, to be shown to a person or a program."""

    made: BoughtSchema
    out: Path | None

    def show(self, as_json: bool) -> None:
        """Write the file, if there is one to write, and print the draft's price."""
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
