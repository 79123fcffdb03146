"""Model card: a page on a model, the terms of its training, its scores and its use.

A card travels with its model. So the card of a private run shows no number computed from records without noise: no scores, no
entries of a schema that were read off the records, and no epsilon if it is withheld.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from crescendo import __version__
from crescendo.data.records import Label
from crescendo.data.tables.feature_schema import NumberColumn, Schema
from crescendo.objectives.nets.net_names import is_net, name_of
from crescendo.objectives.objective_kinds import OBJECTIVES
from crescendo.privacy.guarantee import Guarantee
from crescendo.privacy.protection import Withheld
from crescendo.runs import result_view

if TYPE_CHECKING:
    from crescendo.federation.finished_federation import FinishedFederation
    from crescendo.runs.result import Result

CARD = "MODEL_CARD.md"
_SHOWN = 12  # classes, categories and names of a list
_MOST_COLUMNS = 200
_OPEN = "No epsilon, because no privacy was asked for: the model may reveal everything about its training records."
_UNMEASURED = (
    "Not stated here: the scores of a private run are measured on records without noise, and no epsilon covers them. People who "
    "may see the records find the scores in `metrics.jsonl` and `report.html` of the run's folder."
)
_NOT_KNOWN = (
    "Not measured by the federation: none of its parties saw all the records. `crescendo predict` measures the model on your "
    "table."
)
_GIVEN = ("a torch module that a program gave", "a model that a program gave")  # called net in the lines on its use
_USE = """## How to use it

```python
import crescendo

model = crescendo.load({model})  # {where}
print(model.predict("new.csv"))
```

Or on the command line: `crescendo predict {place} new.csv{asked}`. New records have the columns, or features, that are named
above; labels need not be there.
"""


@dataclass(frozen=True)
class ModelCard:
    """The parts of a card, a sentence or a line of a list each."""

    title: str
    what: Sequence[str]
    terms: Sequence[str]
    worth: Sequence[str]
    data: Sequence[str]
    objective: str  # the file of a user's model, as load takes it; empty for a built-in one
    place: str = "."
    where: str = "the folder of this file"

    @classmethod
    def of_run(cls, result: Result) -> ModelCard:
        """The card of a simulated run."""
        prepared, data = result.prepared, result.prepared.dataset
        kind = _trained(result)
        clients, private = prepared.terms.clients, prepared.privacy is not None
        declared = "" if prepared.privacy is None else _declared(prepared.privacy.certificate.records)
        name = Path(data.name).name
        records = f"{len(data.train):,} training records" if not private else declared
        return cls(
            name,
            (
                f"{_about(kind)} {result_view.learned(data.features, len(data.classes))}.",
                f"Trained by Crescendo {__version__} in a simulated federation of {_many(clients, 'client')}: "
                f"{_many(result.rounds, 'round')}, {result.gradients:,} gradients.",
            ),
            _terms(prepared.privacy),
            [_UNMEASURED] if private else list(_scores(result)),
            (
                f"Source: {code(name)}, {records}.",
                *_labels(data.classes),
                *_features(data.schema, data.names, data.features, private),
                *(
                    ["Features are standardised first; `predict` and exported models do that by themselves."]
                    if data.scaling
                    else []
                ),
            ),
            "" if kind in OBJECTIVES or is_net(kind) else kind,
        )

    @classmethod
    def of_federation(cls, found: FinishedFederation) -> ModelCard:
        """The card of a finished federation. Accounting for a private one takes some seconds."""
        agreed = found.agreed
        made = agreed.certificate
        guarantee = None if made is None or agreed.delta is None else Guarantee.of_terms(made, agreed.delta)
        many = _many(len(agreed.names), "client")
        return cls(
            agreed.federation,
            (
                f"{_about(found.kind)} {result_view.learned(agreed.features, len(found.classes) if not found.numbers else 0)}.",
                f"Trained in the federation {code(agreed.federation)} of {many}: {_many(agreed.terms.rounds, 'round')}, under "
                f"the terms with the SHA-256 `{agreed.digest}`.",
            ),
            [_OPEN] if guarantee is None else list(_of_federation(guarantee)),
            [_NOT_KNOWN],
            (
                f"Records of {many}" + ("" if made is None else f", {_declared(made.records)}") + ".",
                *(() if found.numbers else _labels(found.classes)),
                *_features(agreed.schema, (), agreed.features, False),
            ),
            "" if found.kind in OBJECTIVES or name_of(found.kind) else found.kind,
            "model.npz",
            "of the server's or a client's folder",
        )

    def __str__(self) -> str:
        own = code(self.objective)[1:-1].replace('"', "'")
        given, asked = (f', objective="{own}"', f" --model {own}") if self.objective else ("", "")
        where = self.where
        if self.objective in _GIVEN:
            given, asked, where = ", objective=net", " --model FILE.py:NAME", f"{where}; net is that model"
        use = _USE.format(model=f'"{self.place}"{given}', where=where, place=self.place, asked=asked)
        lines = [f"# Model card: {plain(self.title)}", *self.what]
        for title, said in (
            ("On what terms", self.terms),
            ("How good it is", self.worth),
            ("What its data look like", self.data),
        ):
            lines += [f"## {title}", _listed(said)]
        return "\n\n".join([*lines, use])


def plain(text: str) -> str:
    """Return untrusted text escaped for one line of Markdown.

    >>> print(plain("a <b>|*x*" + chr(10)))
    a &lt;b&gt;\\|\\*x\\*?
    """
    shown = "".join(one if one.isprintable() else "?" for one in text[:200])
    shown = shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{one}" if one in "\\`*_{}[]|#" else one for one in shown)


def code(text: object) -> str:
    """Return untrusted text as code for one line of Markdown.

    >>> print(code("a`b" + chr(10)), code(3))
    `a'b?` `3`
    """
    shown = "".join(one if one.isprintable() else "?" for one in str(text)[:200])
    return f"`{shown.replace('`', chr(39)) or ' '}`"


def _listed(said: Sequence[str]) -> str:
    return said[0] if len(said) == 1 else "\n".join(f"- {one}" for one in said)


def _trained(result: Result) -> str:
    """Return the name of the trained model: a built-in objective, a file's name, or words for a model that a program gave."""
    named = result.prepared.config.objective.kind
    if result.trained in OBJECTIVES:
        return result.trained
    return _kind(named) if named not in OBJECTIVES else _GIVEN[0] if result.is_torch else _GIVEN[1]


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' if count != 1 else ''}"


def _kind(kind: str) -> str:
    """Return the name of a user's model without its file's folders, which exist on one machine only."""
    library, colon, _ = kind.partition(":") if kind.startswith(("torch:", "jax:")) else ("", "", "")
    return library + colon + kind.removeprefix(library + colon).replace("\\", "/").rpartition("/")[2]


def _about(kind: str) -> str:
    known = {
        "logistic": "A logistic regression",
        "softmax": "A softmax regression",
        "least-squares": "A least-squares regression",
    }
    if kind in _GIVEN:
        return f"{kind[:1].upper()}{kind[1:]}, trained"
    return known.get(kind, f"The model {code(kind)}")


def _declared(records: Sequence[int]) -> str:
    low, high = min(records), max(records)
    each = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return f"{each} records declared by each client"


def _terms(protection: Guarantee | Withheld | None) -> Sequence[str]:
    """Return the sentences on a run's privacy: its epsilon and the meaning of that, or why there is none."""
    if protection is None:
        return [_OPEN]
    if isinstance(protection, Withheld):
        return [
            f"No epsilon, because entries were read off the records. {protection.says[:1].upper()}{protection.says[1:]}."
        ]
    return [_stated(protection), *map(_sentence, protection.sentences())]


def _sentence(said: str) -> str:
    return f"{said[:1].upper()}{said[1:].rstrip('.')}."


def _stated(guarantee: Guarantee) -> str:
    made = guarantee.certificate
    return (
        f"**Epsilon {guarantee.epsilon:.4g} at delta {guarantee.delta:g}** for the client that spends most, by the mechanism "
        f"`{made.mechanism}` with the noise multiplier {made.sigma:.4g} ({made.adjacency})."
    )


def _of_federation(guarantee: Guarantee) -> Iterator[str]:
    yield _stated(guarantee)
    yield from map(_sentence, [*guarantee.meaning().sentences(), *guarantee.cautions()])
    yield "It covers this federation alone; each client's ledger has the total that its records have spent."


def _scores(result: Result) -> Iterator[str]:
    rows = result_view.worth(result.metrics[-1], None, result.references)
    if not rows:
        yield "Not measured: the run had no test part."
    for name, value, means in rows:
        yield f"{name}: **{value}**, {means}"
    if result.trouble is not None:
        yield f"Note: {plain(result.trouble)}."


def _labels(classes: Sequence[Label]) -> Iterator[str]:
    if not len(classes):
        yield "Labels: numbers."
        return
    more = f" and {len(classes) - _SHOWN} more" if len(classes) > _SHOWN else ""
    yield f"Labels: {', '.join(map(code, classes[:_SHOWN]))}{more}."


def _features(schema: Schema | None, names: Sequence[str], features: int, private: bool) -> Iterator[str]:
    """Yield lines on the columns that become features; for a private run, without values read off its records."""
    if schema is None and names:
        more = f" and {len(names) - _MOST_COLUMNS:,} more" if len(names) > _MOST_COLUMNS else ""
        yield f"Columns, all numbers: {', '.join(map(code, names[:_MOST_COLUMNS]))}{more}."
        return
    if schema is None:
        yield f"Features: {features:,} numbers, known by their place."
        return
    yield f"Columns, which become {_many(schema.width, 'feature')}:"
    for column in schema.columns[:_MOST_COLUMNS]:
        number = isinstance(column, NumberColumn)
        if private and column.looked_at:
            yield f"{code(column.name)}: {'a number' if number else 'a category'}"
        elif isinstance(column, NumberColumn):
            filled = "" if column.missing is None else f"; a missing cell counts as {column.missing:g}"
            yield f"{code(column.name)}: a number from {column.low:g} to {column.high:g}{filled}"
        else:
            more = f" and {len(column.values) - _SHOWN:,} more" if len(column.values) > _SHOWN else ""
            yield f"{code(column.name)}: one of {', '.join(map(code, column.values[:_SHOWN]))}{more}"
    if len(schema.columns) > _MOST_COLUMNS:
        yield f"and {len(schema.columns) - _MOST_COLUMNS:,} more columns, which `schema.toml` or the terms name"
