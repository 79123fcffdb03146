"""Writes docs/run_file.md from the models, so that the reference and the checks cannot disagree.

python -m crescendo.config.reference > docs/run_file.md
"""

from pydantic.fields import FieldInfo

from crescendo.config.schema import Config
from crescendo.tables import right_of, show

HEAD = """# The run file

One TOML file says everything about a run. Only `data.source`, `clients.count` (unless the split is by column), one
length, sizes and steps must be given. An unknown key is an error that names the nearest right one. `--set a.b=c` on
the command line puts a value over the file's: TOML, or a bare word; `--set a.b=` takes the key out. Paths are seen
from the run file's folder. A run's folder has a `config.toml` with every value filled in, which can be run again.

```toml
[data]
source = "a9a"
[clients]
count = 5
[objective]
l2 = "1/N"
[schedule]
gradients = 20000
sizes = {kind = "power", scale = 100, per_client = true}
steps = {kind = "diminishing", eta0 = 0.1, beta = 0.001}
wait = {rounds = 1}
[timing]
preset = "staggered"
```

A table with a `kind` has the keys of that kind: `schedule.sizes.power.scale` below is the key `scale` of `sizes =
{kind = "power", ..}`. Short forms: a number for a constant `tau`, `speed`, `latency` or `gamma`, a list for a `speed`
per client, and `tau = "theorem"`. Exactly one of `schedule.gradients`, `schedule.gradients_per_client` and
`schedule.rounds` is given.

An objective of your own, `kind = "file.py:Name"`, is called as `Name(features, **options)` and needs `initial(rng)`,
`gradient(w, data, rows)` (the sum over the rows) and `evaluate(w, data)` (means; `loss` at least, `accuracy` if there
is one). `data.y` has class numbers: 0 for the first label in rising order (texts last), 1 for the second, and so on, however
labels are written; a run prints which is which where they are not such numbers themselves. `examples/own_model.py` is one.
To serve it, `data.classes` names all labels: see `examples/own_federation.toml`.

This page is written by `python -m crescendo.config.reference`.
"""


def reference() -> str:
    """The whole page."""
    parts = [HEAD]
    for section in Config.model_fields:
        rows = [_row(path, field) for path, field in Config.every_key().items() if path.split(".")[0] == section]
        parts.append(
            "\n".join(
                [f"## [{section}]", "", "| key | must be | left out | what it does |", "|---|---|---|---|", *rows, ""]
            )
        )
    return "\n".join(parts)


def _row(path: str, field: FieldInfo) -> str:
    return f"| `{path}` | {right_of(field)} | {_default(field)} | {field.description} |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "must be given"
    if field.default is None:
        return "-"
    if hasattr(field.default, "model_dump"):
        return (
            "`{" + ", ".join(f"{k} = {show(v)}" for k, v in field.default.model_dump(exclude_none=True).items()) + "}`"
        )
    return "`{}`" if field.default == {} else f"`{show(field.default)}`"


if __name__ == "__main__":
    print(reference(), end="")
