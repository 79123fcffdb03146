"""What is mutated: the modules that make an epsilon true, how many mutants of each, and the tests that are about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["released", "certified", "charged", "drafted"]


@dataclass(frozen=True)
class Target:
    """``role`` says what a bug in the module changes: a release, what is certified of it, what is charged for it, or a draft.

    ``left_out`` are functions that have no part in that: words, plans, what is not private.
    """

    module: str
    role: Role
    mutants: int
    tests: tuple[str, ...]
    left_out: frozenset[str] = frozenset()

    @property
    def chance(self) -> bool:
        """Whether a bug may show in the distribution of random numbers alone, for which a short audit sees too few."""
        return self.module.rpartition(".")[2] in ("noise", "gaussian", "random")


def _file(name: str) -> str:
    folder, _, what = name.rpartition("/")
    return f"dp/tests/test_{what}.py" if folder == "dp" else f"tests/{folder}/test_{what}.py"


def _target(module: str, role: Role, mutants: int, tests: str, left_out: str = "") -> Target:
    name = module if module.startswith("crescendo_dp.") else f"crescendo.{module}"
    return Target(name, role, mutants, tuple(map(_file, tests.split())), frozenset(left_out.split()))


_MECHANISMS = "privacy/mechanisms privacy/rounding privacy/mechanism_kinds"
_SEEDED = "privacy/seeded_releases"
_LEDGER = "dp/ledger storage/ledger_file storage/ledger_check storage/store"
_KERNELS = "objectives/steps objectives/logistic objectives/records_by_themselves"
_DRAFTS = "drafter/draft_certificate drafter/drafts_attacked"
_ACCOUNTANT = "dp/accountant"

TARGETS = (
    _target("privacy.mechanisms.minibatch", "released", 18, f"{_MECHANISMS} {_SEEDED} privacy/layer_clips", "remedy"),
    _target("privacy.mechanisms.local", "certified", 16, f"{_MECHANISMS} {_SEEDED}", "remedy"),
    _target("privacy.mechanisms.batch_clip", "released", 11, f"privacy/batch_clip {_SEEDED}", "remedy longest_move"),
    _target("privacy.mechanisms.gaussian", "released", 21, "privacy/gaussian", "word_of"),
    _target("privacy.mechanisms.noise", "released", 14, f"privacy/noise {_SEEDED}"),
    _target("privacy.mechanisms.rounding", "certified", 8, "privacy/rounding"),
    _target("privacy.mechanisms.admission", "released", 11, _MECHANISMS, "enough_declared"),
    _target("privacy.mechanisms.certificate", "certified", 10, f"{_MECHANISMS} dp/event_kinds", "printed"),
    _target("privacy.mechanisms.mechanism", "released", 11, f"{_MECHANISMS} {_SEEDED}", "Plain"),
    _target(
        "privacy.mechanisms.proposal",
        "certified",
        18,
        f"{_MECHANISMS} privacy/reach",
        "remedy longest_move longest_noise",
    ),
    _target("privacy.mechanisms.reach", "certified", 10, "privacy/reach"),
    _target("privacy.mechanisms.extremes", "certified", 8, "privacy/extremes privacy/mechanisms"),
    _target("crescendo_dp.planning.sigmas", "certified", 5, "privacy/mechanisms dp/family", "aggregated rounds"),
    _target("worker", "released", 10, "simulator/worker network/client/resumed_rounds"),
    _target("core.client", "released", 10, "core/client", "lost"),
    _target("core.random", "released", 5, f"core/random {_SEEDED}"),
    _target("objectives.base", "released", 8, "objectives/steps objectives/clipped_sums", "LoopStepper"),
    _target("objectives.layer_clips", "released", 8, "privacy/layer_clips objectives/clipped_sums", "pieces"),
    _target(
        "objectives.linear.margin_kernels",
        "released",
        19,
        _KERNELS,
    ),
    _target(
        "objectives.linear.linear_model",
        "released",
        5,
        "objectives/logistic objectives/steps",
        "penalties stacked scored",
    ),
    _target("objectives.linear.compiled_stepper", "released", 6, "objectives/steps objectives/logistic"),
    _target("objectives.isolation.isolated_stepper", "released", 4, "objectives/isolation objectives/own"),
    _target("crescendo_dp.accounting.epsilon", "charged", 8, _ACCOUNTANT, "_Cache"),
    _target("crescendo_dp.accounting.privacy_loss", "charged", 10, _ACCOUNTANT),
    _target("crescendo_dp.accounting.tilted_fft", "charged", 10, _ACCOUNTANT),
    _target("crescendo_dp.accounting.renyi", "charged", 5, _ACCOUNTANT),
    _target("crescendo_dp.directed_rounding", "charged", 5, f"{_ACCOUNTANT} dp/ledger"),
    _target("crescendo_dp.planned_events", "charged", 5, "dp/event_kinds dp/events dp/ledger"),
    _target("crescendo_dp.ledger.book", "charged", 6, _LEDGER, "summary"),
    _target("storage.ledger.ledger_store", "charged", 11, f"{_LEDGER} storage/ledger_kills"),
    _target("storage.ledger.outbox", "charged", 5, f"{_LEDGER} storage/ledger_kills"),
    _target("drafter.noisy_counts", "drafted", 6, "drafter/private_draft drafter/drafts_attacked"),
    _target(
        "drafter.draft_certificate",
        "drafted",
        10,
        "drafter/draft_certificate drafter/drafts_attacked",
        "_least_epsilon least",
    ),
    _target("drafter.charged_draft", "drafted", 5, "drafter/charged_draft"),
)

BY_MODULE = {target.module: target for target in TARGETS}
