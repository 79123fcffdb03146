"""Generator of docs/run_file.md: writes it from the models, so that the reference and the checks cannot disagree.

python -m crescendo.config.reference > docs/run_file.md
"""

from pydantic.fields import FieldInfo

from crescendo.config.schema import Config
from crescendo.tables import right_of, show

HEAD = """# The run file

One TOML file describes a whole run. This page lists every key, for readers who write or change such a file.

- **Required keys**: `data.source`, `clients.count` (unless the split is by column), `schedule.steps`, and two of three:
  `schedule.gradients` (or `gradients_per_client`), `schedule.rounds` and `schedule.sizes`. Gradients and rounds alone make
  rounds that grow linearly; with sizes that lack a scale, such as `{kind = "power", power = 0.5}`, they determine the scale.
- **Mistakes**: an unknown key is an error that names the nearest valid key.
- **From the command line**: `--set a.b=c` overrides a value of the file. The value is TOML or a bare word. `--set a.b=`
  removes the key.
- **Paths** are relative to the folder of the run file.
- **The complete file**: every run's folder has a `config.toml` with all values filled in, which can be run again.

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
{kind = "power", ..}`. There are short forms: a number for a constant `tau`, `speed`, `latency` or `gamma`, a list for one
`speed` per client, and `tau = "theorem"`.

`kind = "file.py:Name"` names an objective of your own; `examples/own_model.py` is one. It is called as
`Name(features, **options)` and needs three methods:

- `initial(rng)` returns the first model;
- `gradient(w, data, rows)` returns the sum of the gradients over the rows;
- `evaluate(w, data)` returns means: at least `loss`, and `accuracy` if there is one.

`data.y` holds class numbers, however the labels are written: 0 for the first label in rising order (texts last), 1 for the
second, and so on. If the labels are written differently, the run prints the number of each. To serve the objective,
name all labels in `data.classes`: see `examples/own_federation.toml`.

`python -m crescendo.config.reference` writes this page.
"""


def reference() -> str:
    """Return the text of docs/run_file.md."""
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
