"""Preparation of a run: from a checked config to data, objective, schedule with its certificate, terms and privacy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from crescendo.algorithms.algorithm_kinds import ALGORITHMS, OURS, Algorithm
from crescendo.algorithms.rival_options import AlgorithmOptions
from crescendo.config.loading import ELSEWHERE
from crescendo.config.schema import Config
from crescendo.config.to_terms import guarantee_of, public_noise, terms_and_cost, with_numbers
from crescendo.core.arrays import Floats, Ints
from crescendo.core.terms import Terms
from crescendo.data import Dataset, Records, client_names, load, split, weights
from crescendo.data.labels import NUMBERS, Classes
from crescendo.data.provenance import LookedAt
from crescendo.data.registry import stated_classes
from crescendo.data.scaling import scaled
from crescendo.data.tables.table_cautions import about_lengths
from crescendo.errors import ConfigError
from crescendo.federation.agreement import Agreement, build_terms
from crescendo.federation.auto_terms import DRAFT, auto_steps, refuse_unknown, settled_steps, stable_factor
from crescendo.federation.objective_terms import first_model, made_up_records
from crescendo.federation.schedule_terms import RunSchedule, Schedule
from crescendo.objectives import ModelFile, Objective, OwnModel, weights_of_rows
from crescendo.objectives.base import Traits
from crescendo.objectives.linear.linear_model import LinearModel
from crescendo.objectives.model_file import library_of
from crescendo.objectives.nets.net_names import settled, with_classes
from crescendo.objectives.objective_kinds import OBJECTIVES
from crescendo.privacy.guarantee import Guarantee
from crescendo.privacy.mechanisms.admission import admitted, enough_declared, most_records
from crescendo.privacy.mechanisms.mechanism_kinds import MECHANISMS
from crescendo.privacy.protection import Withheld
from crescendo.schedules import CutSizes, ScheduleCertificate
from crescendo_dp.accounting.epsilon import Progress


@dataclass(frozen=True, eq=False)
class Prepared:
    """A run that is ready to start: all its parts are made and its certificates hold.

    ``working`` are the terms that the algorithm follows: the agreement's, or a rival algorithm's version of them.
    """

    config: Config
    dataset: Dataset
    parts: list[Ints]
    agreement: Agreement
    sizes: CutSizes
    convexity: float | None
    privacy: Guarantee | Withheld | None
    algorithm: Algorithm
    options: AlgorithmOptions
    working: Terms

    @property
    def names(self) -> tuple[str, ...]:
        return self.agreement.names

    @property
    def objective(self) -> Objective:
        return self.agreement.objective

    @property
    def terms(self) -> Terms:
        return self.agreement.terms

    @property
    def certificate(self) -> ScheduleCertificate:
        return self.agreement.schedule

    @property
    def label_mapping(self) -> str | None:
        """The class number of each label, for a user's model. None if the numbers are the labels, or the model is built in."""
        return Classes(self.dataset.classes).mapping if isinstance(self.objective, OwnModel) else None

    @cached_property
    def step_room(self) -> float | None:
        """The largest factor on the step sizes that keeps them stable, below 1 if they are unstable; None if unknown."""
        private = self.privacy is not None
        if private and self.config.privacy.norm_bound is None and not isinstance(self.config.privacy.clip, int | float):
            return None
        noise = public_noise(self.config, self.terms)
        if noise is not None and noise.norm_bound is None:  # then only the clip bounds the length of records
            says = MECHANISMS[noise.mechanism].clips_records and not self.objective.traits.numbers
            if not says:
                return None
        records, many = None if private else self.dataset.train, len(self.dataset.classes)
        return stable_factor(self.terms, self.objective, records=records, classes=many, noise=noise)

    def row_weights(self) -> Floats | None:
        """Return the weight of every training record in F = sum_c p_c F_c; None if all are equal."""
        weights = weights_of_rows(self.parts, np.array(self.terms.weights), len(self.dataset.train))
        return None if np.ptp(weights) <= 1e-13 * weights.max() else weights


def prepare(
    config: Config,
    objective: Any = None,
    data: Dataset | None = None,
    progress: Progress | None = None,
    algorithm: Algorithm = ALGORITHMS[OURS],
    options: AlgorithmOptions | None = None,
) -> Prepared:
    """Load, split and certify. Mistakes in the run file alone are refused before any data are read."""
    goal_asked = config.objective.model_copy(update={"kind": settled(config.objective.kind)})
    config = config.model_copy(update={"objective": goal_asked})
    algorithm.check(blocks=config.schedule.blocks, mechanism=config.privacy.mechanism)
    options = algorithm.made() if options is None else options
    count, private = config.clients.count, config.privacy.mechanism != "none"
    wait = config.schedule.wait
    if count is not None and not (wait.is_theorem and wait.m1 is None):  # m1 depends on L and mu, and so on the data
        _ = RunSchedule(config.schedule, count).certificate
    if config.schedule.is_auto and objective is None and library_of(config.objective.kind):
        raise refuse_unknown(config.objective.kind)  # no network has the bound; a user's class may
    if private and data is None and not config.numbers:
        stated_classes(config.data.source, config.data.classes)
    dataset, parts = load_parts(config, data)
    if private and dataset.looked:
        raise ConfigError(
            f"the columns of {dataset.name} were made features by looking at its records, which a private run must not do; give "
            f"schema=.. to crescendo.dataset (`crescendo data schema` drafts one from a public sample)"
        )
    if private and data is not None:
        _check_classes(dataset, config)
    clients = len(parts)
    names = client_names(dataset, clients, config.clients.split)
    config = config.model_copy(update={"clients": config.clients.model_copy(update={"count": clients})})
    if count is None and not private:  # the column's values were counted
        config = config.marked("clients.count")
    # in a private run no public number may be counted from the records, so their number is declared
    declared = config.declared(clients) if private else None
    counts = declared if declared is not None else tuple(len(part) for part in parts)
    # nor may a record decide whether the model is made at all, so a user's model is tried on made-up records
    sample = made_up_records(dataset.features, len(dataset.classes), dataset.train.shape) if private else dataset.train
    if objective is None:
        goal = _make_objective(config, dataset, sum(counts), sample)
    else:  # passed in by a program: a built-in objective unchanged, any other checked and completed
        goal = objective if isinstance(getattr(objective, "traits", None), Traits) else OwnModel(objective, sample)
        if private:
            _check_ours(goal)
    algorithm.check_objective(goal.traits)
    if config.evaluate.auc and isinstance(goal, LinearModel) and "auc" not in goal.metrics:
        raise ConfigError(
            f"evaluate.auc is for two classes and logistic regression, not for {goal.about}; leave it out"
        )
    if private:
        if isinstance(goal, OwnModel):
            by_record = MECHANISMS[config.privacy.mechanism].clips_records
            goal.check_forgetful(first_model(goal, config.run.seed), sample, goal.name, by_record)
        _check_counts(names, counts, [len(part) for part in parts])
        dataset, parts = _admit(dataset, parts, config.privacy.norm_bound, goal)
    shares = weights(config.clients.weights, [range(records) for records in counts])

    def agreed(asked: Schedule) -> tuple[RunSchedule, Agreement]:
        look_at = None if private else dataset.train
        bound, combine = config.privacy.norm_bound, config.clients.combine
        schedule = RunSchedule.of(asked, clients, goal, look_at, bound, combine=combine, private=private)
        made = Agreement.of(
            schedule,
            goal,
            tuple(float(share) for share in shares),
            names=names,
            run=config.run,
            shares=config.clients.shares,
            combine=combine,
            private=private,
            features=dataset.features,
            classes=dataset.classes,
        )
        return schedule, made

    why = ""
    if config.schedule.is_auto:
        draft = agreed(config.schedule.with_steps(DRAFT))[1].terms
        noise = public_noise(config, draft)
        many = 0 if isinstance(goal, OwnModel) else len(dataset.classes)  # a user's gradients may grow without a bound
        chosen = auto_steps(draft, goal, records=None if private else dataset.train, classes=many, noise=noise)
        config = config.model_copy(update={"schedule": settled_steps(config.schedule, chosen)})
        if not private:  # else this run's config.toml could bring steps chosen by the records to a private run
            config = config.marked("schedule.steps")
        why = chosen.why
    schedule, agreement = agreed(config.schedule)
    agreement = agreement.noting(why)
    working = algorithm.terms(agreement.terms, options)
    read_off = () if dataset.schema is None else dataset.schema.looked_at
    if dataset.scaling is not None:
        read_off += (LookedAt(f"the scaling of {dataset.name}", "what is the public range of each column?"),)
    found = guarantee_of(config, working, goal, progress, read_off) if private else None
    if found is not None:
        agreement = replace(agreement, certificate=found.certificate, delta=found.delta)
    promised = schedule.convex if working is agreement.terms else None  # the theory is about the run file's own rounds
    return Prepared(config, dataset, parts, agreement, schedule.sizes, promised, found, algorithm, options, working)


def _check_ours(objective: Objective) -> None:
    """Refuse a user's class that has traits: a certificate may rest only on traits proved of built-in code."""
    kind = type(objective)
    if kind.__module__.partition(".")[0] != __name__.partition(".")[0]:
        raise ConfigError(
            f"{kind.__name__} has traits, such as that it clips, and a private run trusts those of built-in objectives only; "
            "pass an object without traits that has initial, gradient and evaluate: a private run gives it one record at a time"
        )


def _check_classes(dataset: Dataset, config: Config) -> None:
    """Refuse classes that were read off records, and classes that differ from those of the run file."""
    stated = None if config.data.classes is None else tuple(Classes.stated(config.data.classes))
    if stated is None and dataset.counted:
        raise ConfigError(
            f"the classes of {dataset.name} were read off its records, and in a private run no record may decide the classes of "
            f"the others; name them all: crescendo.dataset(x, y, classes=[..])"
        )
    if stated is not None and stated != dataset.classes:
        raise ConfigError(
            f"data.classes states {_some(stated)}, and the classes of {dataset.name} are {_some(dataset.classes)}; state the "
            f"same in crescendo.dataset(x, y, classes=[..])"
        )


def _some(classes: Sequence[object]) -> str:
    return (", ".join(map(str, classes[:6])) + (", ..." if len(classes) > 6 else "")) or "none"


def _check_counts(names: Sequence[str], counts: tuple[int, ...], found: Sequence[int]) -> None:
    """Refuse a simulated client that has more records than its certificate covers."""
    for client, stated, records in zip(names, counts, found, strict=True):
        if records > most_records(stated):
            raise ConfigError(
                f"{client} has {records} records, and privacy.records = {stated} certifies clients with {most_records(stated)} "
                f"at most; set privacy.records to {enough_declared(records)} or more"
            )


def _admit(
    dataset: Dataset, parts: list[Ints], norm_bound: float | None, objective: Objective
) -> tuple[Dataset, list[Ints]]:
    """Return the data as a private mechanism may see them: records shortened to the norm bound, unsound ones left out."""
    labels = Classes.values_of(len(dataset.classes))
    intercept = objective.traits.intercept
    train, sound = admitted(dataset.train, norm_bound, intercept, labels)
    longer = about_lengths(dataset.train.squared_lengths(intercept), norm_bound, dataset.schema, intercept)
    place = np.cumsum(sound) - 1  # a record's place among the sound ones
    columns = {name: column[sound] for name, column in dataset.columns.items()}
    kept = [place[part[sound[part]]] for part in parts]
    records, left_out = train.take(np.flatnonzero(sound)), dataset.left_out + int(np.count_nonzero(~sound))
    notes = (*dataset.notes, *longer)
    return replace(dataset, train=records, columns=columns, left_out=left_out, notes=notes), kept


def load_parts(config: Config, data: Dataset | None = None) -> tuple[Dataset, list[Ints]]:
    """Return the data set of a run file, or ``data`` in its place, and each client's rows."""
    asked = config.clients
    data = load_data(config) if data is None else data
    return data, split(data, asked.count, asked.split, seed=config.run.seed, alpha=asked.alpha, sizes=asked.sizes)


def load_data(config: Config) -> Dataset:
    """Return the data set of a run file; the seed chooses a test part that is cut from it."""
    rule, private = config.clients.split, config.privacy.mechanism != "none"
    said = [name for name in ("drop", "categories", "missing", "scale") if getattr(config.data, name) is not None]
    if private and said:
        raise ConfigError(
            f"data.{said[0]} looks at the records, which a private run must not do; define the features of each column in "
            f"data.schema (`crescendo data schema` drafts it from a public sample)"
        )
    found = load(
        config.data.source,
        folder=config.data.folder,
        test=config.data.test,
        seed=config.run.seed,
        classes=NUMBERS if config.numbers else config.data.classes,
        label=config.data.label,
        column=rule.removeprefix("column:") if rule.startswith("column:") else None,
        features=config.data.features,
        private=private,
        schema=config.data.table_schema(),
        keys=config.data.table_keys(),
    )
    ours = config.objective.kind in OBJECTIVES
    return scaled(found) if found.names and ours and not private and config.data.scale is not False else found


def _make_objective(config: Config, dataset: Dataset, records: int, sample: Records) -> Objective:
    """Make the objective of a run file; try a user's model on the first records of ``sample``."""
    asked = config.objective
    kind, classes = OBJECTIVES.get(asked.kind), len(dataset.classes)
    if kind is None:
        return ModelFile.read(asked.kind).made(sample, with_classes(asked.kind, asked.options, classes))
    if not kind.fits(classes) and (kind.numbers or not classes):
        raise ConfigError(
            f"the labels of {dataset.name} are {'classes' if classes else 'numbers'}, and {kind.about} "
            + (
                "predicts numbers"
                if kind.numbers
                else 'predicts classes; for numbers write objective.kind = "least-squares"'
            )
        )
    if not kind.fits(classes):
        raise ConfigError(
            f"{dataset.name} has {classes} classes and {kind.about} needs exactly {kind.many}; "
            f'write objective.kind = "softmax" for all of them, or choose {kind.many} with data.classes'
        )
    l2 = 1.0 / records if asked.l2 == "1/N" else float(asked.l2)
    return kind.make(dataset.features, classes, l2, asked.intercept, asked.dtype, asked.label_range)


def certified(config: Config) -> tuple[Agreement, Guarantee | Withheld | None]:
    """Return the agreement and the privacy with which `run` or `serve` would start. Refuse what they would refuse."""
    if config.data.source == ELSEWHERE:
        config, why = with_numbers(config)
        text, privacy = terms_and_cost(config)
        return build_terms(text).noting(why), privacy
    prepared = prepare(config)
    return prepared.agreement, prepared.privacy
