"""Schema of the run file: its keys, their allowed values and their defaults.

A section is a frozen pydantic model. A field's ``title`` states the allowed values in words, and errors quote it; its
``description`` states its effect. `docs/run_file.md` shows both, and a test compares them. The sections that terms have too,
``[run]``, ``[schedule]`` and ``[privacy]``, are in `crescendo.federation`; `crescendo.config.loading` reads and overrides.
"""

import math
import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from crescendo.config.draft_marks import DraftMarks, check_names, entries, marked_with, settled
from crescendo.config.fitted_sizes import LENGTHS, fitted
from crescendo.config.short_toml import short_toml
from crescendo.data.provenance import LookedAt
from crescendo.data.tables.drafting import TableKeys
from crescendo.data.tables.feature_schema import Schema
from crescendo.errors import ConfigError
from crescendo.federation.kind_tables import tables
from crescendo.federation.schedule_terms import Schedule
from crescendo.federation.terms_tables import Counts, Privacy, Run
from crescendo.objectives.model_file import OWN_KINDS
from crescendo.objectives.nets.net_names import NETS, is_net
from crescendo.objectives.objective_kinds import OBJECTIVES
from crescendo.privacy.mechanisms.mechanism_kinds import NONE
from crescendo.simulator.timing import TIMES
from crescendo.tables import AS_TUPLE, COUNT, FLAG, POSITIVE, KnownWord, Section, key, number_as, one_of

Numbers = Annotated[tuple[Annotated[float, Field(gt=0)], ...], AS_TUPLE]


def _as_schema(raw: dict[str, Any]) -> dict[str, Any]:
    try:
        return Schema.of(raw).plain()
    except ConfigError as error:
        raise ValueError(str(error)) from None


ColumnNames = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], AS_TUPLE]


class _MissingCells(Section):
    """The table ``data.missing``: how missing cells are filled in a table that may be looked at."""

    value: float | Literal["median"] = key(
        "median", 'a number or "median"', "the value that replaces a missing number; the median is that of its column"
    )
    indicator: bool | None = key(
        None,
        FLAG,
        "whether to add a feature that is 1 where the cell is missing; left out, only columns with missing cells get one",
    )
    codes: Annotated[tuple[float, ...] | None, AS_TUPLE] = key(
        None,
        "a list of numbers",
        "numbers that stand for a missing cell, such as -999; `missing = [-999]` is short for them",
        min_length=1,
    )


_CODES_ALONE = BeforeValidator(lambda value: {"codes": value} if isinstance(value, list | tuple) else value)


class _Data(Section):
    source: str = key(
        ...,
        "the name of a source or a path",
        "the training data; `crescendo data list` names the sources",
        min_length=1,
    )
    folder: str | None = key(
        None,
        "a path",
        "the folder of the named files; left out, the environment variable CRESCENDO_DATA names it, and without that it is the "
        "folder that `crescendo data get` downloads to",
    )
    test: float = key(
        0.2,
        "a number from 0 up to, not including, 1",
        "the fraction of records held out for testing if the source has no test set; 0 for none",
        ge=0,
        lt=1,
    )
    label: str | None = key(None, "the name of a column", "the label column of a csv file; left out, the last column")
    features: int | None = key(
        None,
        COUNT,
        "number of features of a LIBSVM file given by its path; left out, the largest index in the file, but a private run "
        "must state it",
        ge=1,
    )
    classes: Annotated[tuple[int | float | str, ...] | None, AS_TUPLE] = key(
        None,
        "a list of at least two labels",
        "keep only the records with these labels; a private run must state them unless its source has a name",
        min_length=2,
    )
    schema: Annotated[dict[str, Any], AfterValidator(_as_schema)] | None = key(  # type: ignore[assignment]
        None,
        "the path of a schema file, or its tables",
        "how the columns of a table become features, in the same way for every client; `crescendo data schema` drafts one. A "
        "private run and a federation need it unless all columns are numbers",
    )
    drop: ColumnNames | None = key(None, "a list of columns", "columns of a table that are not used as features")
    categories: ColumnNames | None = key(
        None, "a list of columns", "columns of a table that hold categories although they look like numbers"
    )
    missing: Annotated[_MissingCells | None, _CODES_ALONE] = key(
        None,
        "a table with value, indicator and codes, or a list of codes, such as [-999]",
        "how missing cells are filled; left out, with the median and an indicator",
    )
    scale: bool | None = key(
        None,
        FLAG,
        "whether to scale the numbers of a table to [-1, 1]; left out, a regression of ours standardises a table with only "
        "numbers where columns differ in size, and any other table is scaled; a private run scales by data.schema alone",
    )

    @model_validator(mode="after")
    def _one_way_to_say_it(self) -> Self:
        said = [name for name in ("drop", "categories", "missing", "scale") if getattr(self, name) is not None]
        if self.schema is not None and said:
            raise ValueError(
                f"data.{said[0]} is for a table without data.schema, which already describes the columns; leave one out"
            )
        return self

    def table_schema(self) -> Schema | None:
        return None if self.schema is None else Schema.of(self.schema)

    def table_keys(self) -> TableKeys:
        """Return the keys of [data] that describe a table that may be looked at."""
        filled = self.missing or _MissingCells()
        codes = filled.codes or ()
        return TableKeys(
            self.drop or (), self.categories or (), filled.value, filled.indicator, bool(self.scale), codes
        )


class _Clients(Section):
    count: int | None = key(None, COUNT, "how many clients share the data; a split by column determines it", ge=1)
    split: str = key(
        "iid",
        one_of("iid", "label", "dirichlet", "column:NAME"),
        "how records are divided among the clients",
        pattern=r"^(iid|label|dirichlet|column:.+)$",
    )
    weights: Literal["size", "uniform"] | Numbers = key(
        "size",
        '"size", "uniform" or a list of numbers above 0, one per client',
        "p_c, the weight of each client in the objective",
    )
    shares: Literal["expected", "coin"] = key(
        "expected",
        one_of("expected", "coin"),
        "how the gradients of a round are divided among the clients: by expected shares, or by one coin flip per gradient",
    )
    combine: Literal["sum", "mean"] = key(
        "mean",
        one_of("sum", "mean"),
        "how the server combines the clients' updates: their mean, or their sum as in the paper, for short rounds or small steps",
    )
    alpha: float | None = key(
        None,
        POSITIVE,
        "concentration of the Dirichlet split; left out, 1; the smaller, the more the clients' labels differ",
        gt=0,
    )
    sizes: Numbers | None = key(
        None, "a list of numbers above 0, one per client", "relative amounts of data for an unequal iid split"
    )


def _is_objective(kind: str) -> bool:
    return kind in OBJECTIVES or is_net(kind) or re.search(r"^.+\.py:[A-Za-z_]\w*$", kind) is not None


class _Goal(Section):
    kind: Annotated[str, KnownWord(_is_objective, lambda: one_of(*OBJECTIVES, *NETS, *OWN_KINDS))] = key(
        "logistic",
        "",
        "the model and its loss: `logistic` for two classes, `softmax` for any number of classes, `least-squares` to predict "
        "numbers; `lenet` and `mlp` are built-in networks, which use jax where it is installed and torch otherwise "
        "(`torch:lenet` names the library); the path of a file is relative to the run file",
    )
    l2: Annotated[float, Field(ge=0)] | Literal["1/N"] = key(
        0.0,
        'a number of at least 0, or "1/N"',
        "weight of the L2 term, which includes the intercept; N is the number of all training records",
    )
    intercept: bool = key(True, FLAG, "whether the model has an intercept")
    dtype: Literal["float64", "float32"] = key("float64", one_of("float64", "float32"), "the precision of local steps")
    label_range: Annotated[tuple[float, float] | None, AS_TUPLE] = key(
        None,
        "a list of two numbers, [lowest, highest]",
        "for least-squares: a label outside the range counts as the nearest of the two; a private run must state it",
    )
    options: dict[str, Any] = key({}, "a table", "keyword arguments for a network or an objective of your own")


class Listed(Section):
    kind: Literal["list"]
    values: Numbers = key(..., "a list of numbers above 0, one per client", "one value per client", min_length=1)


class _Crash(Section):
    every: float = key(..., POSITIVE, "mean virtual seconds between two crashes of a client", gt=0)
    down: float = key(..., POSITIVE, "mean virtual seconds until it is back", gt=0)


class _TimingKeys(Section):
    preset: Literal["lock-step", "staggered", "heterogeneous"] = key(
        "lock-step", one_of("lock-step", "staggered", "heterogeneous"), "speeds and latencies to start from"
    )
    speed: Annotated[Annotated[Section, tables(TIMES, Listed)] | None, number_as("value")] = key(
        None,
        "a number above 0, a list of them or a table with a kind",
        "gradients per virtual second; a table draws one per client",
    )
    latency: Annotated[Annotated[Section, tables(TIMES)] | None, number_as("value")] = key(
        None,
        "a number of at least 0 or a table with a kind",
        "virtual seconds that a message takes, drawn for each message",
    )
    duplicate: float = key(
        0.0, "a number from 0 up to, not including, 1", "chance that a message arrives twice", ge=0, lt=1
    )
    lose: float = key(
        0.0, "a number from 0 up to, not including, 1", "chance that a message is lost and sent again", ge=0, lt=1
    )
    resend: float = key(1.0, POSITIVE, "virtual seconds until a lost message is sent again", gt=0)
    crash: _Crash | None = key(None, "a table with every and down", "makes clients crash and come back")
    absent_after: float | None = key(
        None, POSITIVE, "virtual seconds of silence after which the others stop waiting for a client", gt=0
    )


class _Evaluate(Section):
    every: int = key(1, COUNT, "measure the model once in this many broadcasts, and at the end", ge=1)
    optimum: bool = key(False, FLAG, "also solve for the best model and record the distance to it")
    gradient: bool = key(
        False,
        FLAG,
        "also record the norm of the gradient over all training records, and the mean so far of its square",
    )
    auc: bool = key(False, FLAG, "also measure the area under the ROC curve of the last model, on the test records")
    without_noise: bool = key(False, FLAG, "also run a private run without its noise, to show what the noise costs")


Names = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=100)], ...], AS_TUPLE]


class _Serve(Section):
    """The section [serve]: keys for `crescendo serve`, which a simulation ignores."""

    federation: str | None = key(
        None,
        "a name",
        "the id of the federation in every message, journal and ledger; `crescendo serve` needs it",
        min_length=1,
    )
    names: Names | None = key(
        None,
        "a list of names, one per client",
        'the names of the clients that may join, in order; left out, "client 0", "client 1", ..',
    )
    features: int | None = key(
        None,
        COUNT,
        "number of features of a record; `crescendo serve` needs it, since the server sees no records, unless there is a "
        "data.schema",
        ge=1,
    )
    records: Annotated[int, Field(ge=1)] | Counts | None = key(
        None,
        "a whole number of at least 1, or a list of one per client",
        'declared number of records of each client, for weights = "size" or l2 = "1/N"; a private run takes '
        "privacy.records instead",
    )
    test: str | None = key(
        None,
        "the name of a source or a path",
        "a public data set on which the server measures the last model, or its test part if it has one; the server never looks "
        "at a client's records",
        min_length=1,
    )
    late: Names = key(
        (), "a list of names", "clients that may join late: the others do not wait for them until they have joined"
    )
    absent_after: float = key(
        60.0,
        POSITIVE,
        "seconds of silence, while other clients are heard, after which the others stop waiting for a client until it is back",
        gt=0,
    )
    gather: float = key(
        3600.0,
        POSITIVE,
        "seconds that the joined clients wait for a client that has never joined, unless it is in serve.late",
        gt=0,
    )
    hold_after: float = key(
        86_400.0,
        POSITIVE,
        "the most seconds that a round waits for a client's update; then the client counts as absent until it is back. A short "
        "round waits less: 20 times as long as the median client needs",
        gt=0,
    )
    hold_least: float | None = key(
        None,
        POSITIVE,
        "the fewest seconds that a round waits for a client's update, however short rounds are, up to serve.hold_after; left "
        "out, 600",
        gt=0,
    )
    disk_reserve: float | None = key(
        None,
        POSITIVE,
        "megabytes of the server's disk to keep free: with less the server takes no updates, and with less than five times as "
        "much it warns; left out, the size of the journal between two snapshots plus four models",
        gt=0,
    )

    @model_validator(mode="after")
    def _names_are_apart(self) -> Self:
        names = self.names or ()
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(f'serve.names has "{twice[0]}" twice; give every client a different name')
        return self


def _keys_of(section: object) -> tuple[str, ...]:
    return tuple(type(section).model_fields) if isinstance(section, Section) else ()


class Config(Section):
    """A whole run file."""

    run: Run = Run()
    data: _Data
    clients: _Clients
    objective: _Goal = _Goal()
    schedule: Schedule
    timing: _TimingKeys = _TimingKeys()
    privacy: Privacy = Privacy()
    evaluate: _Evaluate = _Evaluate()
    serve: _Serve = _Serve()
    draft: DraftMarks | None = None

    @model_validator(mode="before")
    @classmethod
    def _fit_sizes(cls, raw: Any) -> Any:
        if not isinstance(raw, dict) or not isinstance(raw.get("schedule"), dict):
            return raw
        clients = raw.get("clients")
        count = clients.get("count") if isinstance(clients, dict) else None
        schedule = fitted(raw["schedule"], count if isinstance(count, int) else None)
        if schedule.get("sizes") != raw["schedule"].get("sizes"):
            raw = marked_with(raw, "schedule.sizes", [f"schedule.{name}" for name in LENGTHS])
        return {**raw, "schedule": schedule}

    def plain(self) -> dict[str, Any]:
        """Return all values that are not None, ready for TOML."""
        return self.model_dump(mode="json", exclude_none=True)

    def to_toml(self) -> str:
        """Return the text of a complete run file that can be run again."""
        import tomli_w

        return tomli_w.dumps(self.plain())

    def __str__(self) -> str:
        """Return a run file without the keys that have their default value: a start for writing another."""
        return short_toml(self.model_dump(mode="json", exclude_none=True, exclude_defaults=True))

    def declared(self, clients: int) -> tuple[int, ...] | None:
        """Return the declared number of records of each client, None if undeclared. A private run always declares N_c."""
        name, asked = "serve.records", self.serve.records
        if self.privacy.mechanism != NONE:
            name, asked = "privacy.records", self.privacy.records
        if asked is None:
            return None
        counts = (asked,) * clients if isinstance(asked, int) else asked
        if len(counts) != clients:
            raise ConfigError(
                f"{name} has {len(counts)} numbers for {clients} clients; give one per client, or one for all"
            )
        return counts

    def marked(self, *keys: str) -> Self:
        """Return this config with marks on its looked-at entries that no person has stated, and on ``keys``."""
        return self.model_copy(update={"draft": settled(self.draft, self.plain(), *keys)})

    @property
    def looked_at(self) -> tuple[LookedAt, ...]:
        """The entries of this file and its schema that were read off records and that no person has stated yet."""
        schema = self.data.table_schema()
        return (*entries(self.draft), *(() if schema is None else schema.looked_at))

    @property
    def numbers(self) -> bool:
        """Whether labels are numbers to be predicted rather than classes."""
        kind = OBJECTIVES.get(self.objective.kind)
        return kind is not None and kind.numbers

    def _check_label_range(self) -> None:
        private, kind = self.privacy.mechanism != NONE, self.objective.kind
        if self.numbers and self.data.classes is not None:
            raise ValueError(
                f"data.classes is for objectives that predict classes, and {kind} predicts numbers; remove it"
            )
        if self.numbers and private and self.objective.label_range is None:
            raise ValueError(
                f"objective.label_range is missing; a private run with {kind} must state the range of its labels, for example "
                "objective.label_range = [0, 1]"
            )
        if not self.numbers and self.objective.label_range is not None:
            raise ValueError(f"objective.label_range is for least-squares, not for {kind}; remove it")

    @model_validator(mode="after")
    def _sections_agree(self) -> Self:
        if self.draft is not None:
            check_names(self.draft, {name: _keys_of(getattr(self, name)) for name in Config.model_fields})
        count, speed = self.clients.count, self.timing.speed
        drawn = {"speed": speed, "latency": self.timing.latency}
        lists: dict[str, tuple[object, ...] | None] = {
            "clients.weights": self.clients.weights if isinstance(self.clients.weights, tuple) else None,
            "clients.sizes": self.clients.sizes,
            "timing.speed": speed.values if isinstance(speed, Listed) else None,
            "serve.names": self.serve.names,
            "serve.records": self.serve.records if isinstance(self.serve.records, tuple) else None,
        }
        for name, values in lists.items():
            if values is not None and count is not None and len(values) != count:
                raise ValueError(f"{name} has {len(values)} values for {count} clients; give one per client")
        if count is None and not self.clients.split.startswith("column:"):
            raise ValueError("clients.count is missing; only a split by column can do without it")
        if self.clients.alpha is not None and self.clients.split != "dirichlet":
            raise ValueError(
                f'clients.alpha goes with split = "dirichlet" only, not "{self.clients.split}"; '
                "remove clients.alpha, or set that split"
            )
        if self.clients.sizes is not None and self.clients.split != "iid":
            raise ValueError(
                f'clients.sizes goes with split = "iid" only, not "{self.clients.split}"; '
                "remove clients.sizes, or set that split"
            )
        if getattr(speed, "value", None) == 0:
            raise ValueError("timing.speed must be a number above 0, a list of them or a table with a kind, not 0")
        for name, table in drawn.items():
            low, high = getattr(table, "low", 0.0), getattr(table, "high", math.inf)
            if low > high:
                raise ValueError(f"timing.{name}.low = {low} lies above timing.{name}.high = {high}; swap them")
        if self.evaluate.without_noise and self.privacy.mechanism == NONE:
            raise ValueError("evaluate.without_noise is for a private run; remove it, or choose a privacy.mechanism")
        self._check_label_range()
        if self.objective.options and self.objective.kind in OBJECTIVES:
            raise ValueError('objective.options is for networks and for kind = "file.py:Name" only; remove it')
        given = self.objective.l2, self.objective.intercept, self.objective.dtype
        if self.objective.kind not in OBJECTIVES and given != (0.0, True, "float64"):
            ours = " and ".join(OBJECTIVES)
            raise ValueError(f"objective.l2, intercept and dtype are for {ours}; give your model objective.options")
        return self
