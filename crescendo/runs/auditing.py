"""Audit of a run file: attacks the mechanism that a run would use, at the client that spends most."""

import dataclasses
from collections.abc import Callable

from crescendo.audit import Finding, Report, audit
from crescendo.audit.worst_cases.file_reading import leaks
from crescendo.audit.worst_cases.table_reading import table_leaks
from crescendo.config.schema import Config
from crescendo.data.labels import Classes
from crescendo.errors import ConfigError
from crescendo.privacy.protection import Withheld
from crescendo.runs.prepare import prepare

TRIES = 200  # searches for a record with more influence than is certified
THRESHOLD_RUNS = 1  # per run of the other tests: each is one short run, and the test needs many
THOROUGH = 10  # times as many runs and tries


def attack(
    config: Config,
    name: str,
    runs: int,
    thorough: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """Audit the client that spends most, against its epsilon over the whole run, and the reading of its file."""
    if config.privacy.mechanism == "none":
        raise ConfigError(f"{name} claims no privacy, so there is nothing to audit; choose a privacy.mechanism")
    prepared = prepare(config)
    found = prepared.privacy
    assert found is not None
    if isinstance(found, Withheld):
        raise ConfigError(f"{name} fails the audit with any mechanism: {found.says}")
    me = max(range(len(found.spent)), key=lambda c: found.spent[c].epsilon)
    times = THOROUGH if thorough else 1
    report = audit(
        found.certificate,
        prepared.objective,
        claimed=found.spent[me].epsilon,
        delta=found.delta,
        me=me,
        features=prepared.dataset.features,
        labels=prepared.objective.traits.label_range or Classes.values_of(max(len(prepared.dataset.classes), 1)),
        wire=config.run.wire,
        runs=runs * times,
        tries=TRIES * times,
        threshold_runs=THRESHOLD_RUNS * runs * times,
        seed=config.run.seed,
        progress=progress,
    )
    classes, schema = prepared.dataset.classes, config.data.table_schema()
    said = leaks(classes, prepared.dataset.features)
    if schema is not None:
        said += table_leaks(schema, config.data.label, classes)
    read = tuple(Finding("files", says) for says in said)
    return dataclasses.replace(report, name=prepared.names[me], findings=(*report.findings, *read))
