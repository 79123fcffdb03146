"""All planted bugs, and the audit on each: which checks catch it?

    python -m tests.audit.planted_bugs                          # the table, at the audit's default settings
    python -m tests.audit.planted_bugs CutsTheDraw SameTags     # of some of them
    python -m tests.audit.planted_bugs --module my.bugs         # of somebody else's, which has a list BUGS like the one here

To plant one more: write a class below `Private`, `Worker`, `Certificate` or `SeededSource` (a source is made from a seed and a
client; below `SystemSource`, from nothing) or a function that makes a worker (a `Maker`), and put a `Bug` of it into a list.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

import numpy as np

from crescendo.audit import Report, audit
from crescendo.audit.driving.subject import Maker, Subject
from crescendo.core.terms import Terms
from crescendo.data.records import Records
from crescendo.objectives.logistic.objective import Logistic
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.mechanism import Private
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.privacy.mechanisms.noise import Source, SystemSource
from crescendo.schedules.sizes import ConstantSizes
from crescendo.schedules.steps import ConstantSteps
from crescendo.worker import Worker
from tests.audit import blind_bugs, blind_bugs_two
from tests.audit import planted_mechanisms as mechanisms
from tests.audit import planted_noise as noise
from tests.audit import planted_sources as sources
from tests.audit import planted_workers as workers
from tests.audit.blind_bugs import Blind
from tests.audit.planted_mechanisms import planted

Case = tuple[Certificate, Logistic]


@cache
def subject(
    mechanism: str = "minibatch",
    *,
    eta: float = 0.8,
    l2: float = 0.1,
    blocks: int = 1,
    bound: float | None = 3.0,
    rounds: int = 12,
    size: int = 4,
    clients: int = 1,
    terms: type[Terms] = Terms,
) -> Case:
    """A small configured run: rate 0.2, one round ahead of the slowest."""
    weights = (1 / clients,) * clients
    made = terms(
        ConstantSizes(size * clients), ConstantSteps(eta), weights, rounds, ahead=1, whole_rounds=True, blocks=blocks
    )
    objective = Logistic(6, l2=l2)
    records = (20,) * clients
    return certify(mechanism, made, objective, clip=0.5, sigma=1.0, records=records, norm_bound=bound), objective


@dataclass(frozen=True, eq=False)
class Bug:
    """``what`` has the bug: a mechanism, a worker, a source, a certificate, or a function that makes a worker.

    ``by`` is a check that must catch it, "" for any; ``case`` is the run that it is planted in; ``options`` go to the audit.
    ``needs`` are the runs that it takes to see it.
    """

    what: Any
    by: str = ""
    case: Callable[[], Case] = subject
    options: dict[str, Any] = field(default_factory=dict)
    needs: int = 12

    @property
    def name(self) -> str:
        return str(self.what.name if isinstance(self.what, Blind) else self.what.__name__)

    @property
    def says(self) -> str:
        return str(self.what.says if isinstance(self.what, Blind) else self.what.__doc__).split("\n")[0]

    def audited(self, **options: Any) -> Report:
        """The audit of the run with the bug; no accountant is asked unless ``cost`` is among the options."""
        certificate, objective = self.case()
        given: dict[str, Any] = {"claimed": 1.0, "delta": 1e-5, "cost": lambda events: 0.0, "outbox": None, "seed": 5}
        what = self.what
        if isinstance(what, Blind):
            given |= {"make": blind(what), "wire": what.wire, "sources": {"planted": what.source}}
        elif isinstance(what, type) and issubclass(what, Certificate):
            certificate = as_kind(what, certificate)
        elif isinstance(what, type) and issubclass(what, Private):
            given["make"] = planted(mechanism=what)
        elif isinstance(what, type) and issubclass(what, Worker):
            given["make"] = planted(worker=what)
        elif isinstance(what, type) and issubclass(what, SystemSource):
            given["sources"] = {"planted": lambda seed, client: what()}
        elif isinstance(what, type):
            given["sources"] = {"planted": what}
        elif not {"make", "outbox"} & set(self.options):
            given["make"] = what
        return audit(certificate, objective, **(given | self.options | options))


def blind(bug: Blind) -> Maker:
    """How the audit makes a worker with a bug of `blind_bugs`."""

    def make(subject: Subject, data: Records, rows: Any, source: Source, model: Any) -> Worker:
        certificate, terms = subject.certificate, subject.certificate.terms
        data, sound = bug.admission(data, certificate.norm_bound, subject.objective.traits.intercept, subject.labels)
        kept = rows[sound[rows]]
        data, rows = data.take(kept), np.arange(len(kept))
        made = bug.mechanism(certificate, subject.me, rows, source)
        return bug.worker(terms, subject.me, model, subject.objective, data, rows, 0, subject.wire, made)

    return make


def as_kind(kind: type[Certificate], certificate: Certificate) -> Certificate:
    return kind(**{each.name: getattr(certificate, each.name) for each in fields(certificate)})


def uncertified(case: Case, factor: float = 1.0, l2: float | None = None) -> Case:
    """The same with larger steps or another l2, and no condition to stop it."""
    certificate, objective = case
    steps = ConstantSteps(float(certificate.terms.steps.at(0)) * factor)
    objective = objective if l2 is None else replace(objective, l2=l2)
    terms = replace(certificate.terms, steps=steps)
    return replace(certificate, terms=terms, objective=objective, conditions=()), objective


def steps_above_the_limit(*given: Any) -> Worker:
    """Steps half as large again as the mechanism `local` allows."""
    return planted()(*given)


def shrink_that_grows(*given: Any) -> Worker:
    """L2 so large that it multiplies the model by 2^60 in a round, whose rounding absorbs the noise."""
    return planted()(*given)


def scale_without_bits(*given: Any) -> Worker:
    """Steps so small that noise of their scale is 0."""
    return planted()(*given)


def local(**options: Any) -> Callable[[], Case]:
    return lambda: subject("local", **options)


def batch_clip(**options: Any) -> Callable[[], Case]:
    return lambda: subject("batch-clip", **options)


def minibatch(**options: Any) -> Callable[[], Case]:
    return lambda: subject("minibatch", **options)


NAN = {"make": planted(mechanism=mechanisms.LetsNanThroughTheClip, admission=False)}

BUGS: list[Bug] = [
    # what a record's step is
    Bug(mechanisms.L2InsideTheClip, "certified formula", local()),
    Bug(mechanisms.ShrinksPerDrawnRecord, "sensitivity", local(l2=1.2)),
    Bug(mechanisms.ClipsTheInterceptApart, "sensitivity"),
    Bug(mechanisms.ClipsTheInterceptApart, "sensitivity", local()),
    Bug(mechanisms.ClipsTheSum, "sensitivity"),
    Bug(mechanisms.LetsNanThroughTheClip, "runs to the end", options=NAN),
    Bug(mechanisms.MasksPerStep, "sensitivity", local(l2=0.0, blocks=2, terms=mechanisms.WholeBlocks)),
    Bug(mechanisms.bound_on_x_only, "certified formula", local(l2=0.0, bound=1.2, eta=5.7)),
    Bug(mechanisms.scaled_by_the_longest, "sensitivity"),
    Bug(steps_above_the_limit, "sensitivity", lambda: uncertified(subject("local", l2=0.0, eta=1.6), 1.5)),
    Bug(shrink_that_grows, "noise scale", lambda: uncertified(subject(l2=0.1, eta=1.0), l2=1e4), needs=40),
    Bug(scale_without_bits, "certificate", lambda: uncertified(subject(l2=0.0), 1e-320)),
    # who is drawn
    Bug(mechanisms.SamplesWithReplacement, "draws asked for"),
    Bug(mechanisms.SamplesWithReplacement, "draws asked for", local()),
    Bug(mechanisms.CutsTheDraw, "sensitivity"),
    Bug(mechanisms.CutsTheDraw, "sensitivity", local()),
    Bug(mechanisms.CountsItsRecords, "draws asked for"),
    Bug(mechanisms.DrawsTooOften, "draws asked for"),
    Bug(sources.FasterDraws, "sampling rates", needs=160),
    Bug(sources.SameTags, "tags", needs=40),
    Bug(sources.TagsInOrder, "tags", needs=40),
    Bug(sources.FixedSize, "sizes of draws", needs=40),
    Bug(sources.Epochs, "common records", needs=40),
    Bug(sources.NeverTheLast, "which records", needs=160),
    Bug(sources.DrawsAgainIfEmpty, "smallest and largest draws", minibatch(size=2), needs=60),
    Bug(sources.SameDraws, "common records", needs=40),
    # what is sent
    Bug(noise.ForgetsTheStepInTheNoise, "noise scale", needs=40),
    Bug(noise.RepeatsItsNoise, "noise between rounds", needs=40),
    Bug(noise.LeavesOneCoordinateOut, "noise by coordinate", needs=40),
    Bug(noise.LeavesTheInterceptOut, "noise by coordinate", needs=40),
    Bug(noise.LeavesOneRoundOut, "noise by round", needs=40),
    Bug(noise.TooLittleNoise, "certified formula"),
    Bug(noise.ScaleTellsTheDraw, "noise by size of draw", needs=40),
    Bug(noise.CutsTheNoiseOfEmptyDraws, "tails by size of draw", needs=40),
    Bug(noise.NoiseTellsOneRecord, "noise by record", needs=40),
    Bug(noise.DropsSomeNoise, "noise tails", needs=40),
    Bug(noise.DividesByTheDraw, "sensitivity"),
    Bug(noise.DividesNoiseAndAll, "noise by size of draw", needs=40),
    Bug(noise.FloatLattice, "public grid"),
    Bug(noise.NarrowNoise, "certified formula"),
    Bug(workers.KeepsQuietAboutEmptyDraws, "messages"),
    Bug(workers.TellsTheCount, "messages"),
    Bug(workers.TruncatesOnNarrowWires, "wires"),
    Bug(workers.StopsIfItDoesNotFit, "runs to the end", options={"tries": 100}),
    Bug(sources.HalfTheSystem, "noise scale", needs=40),
    Bug(sources.SmallVariance, "noise scale", needs=200),
    Bug(sources.SilentCoordinate, "noise by coordinate", needs=40),
    Bug(sources.Laplacian, "noise shape", needs=40),
    Bug(sources.CutTails, "noise tails", needs=160),
    Bug(sources.OnASphere, "noise lengths", needs=40),
    Bug(sources.BreathingScale, "noise by round", needs=40),
    Bug(sources.Drifting, "noise scale", needs=160),
    Bug(sources.FiveRoundsLater, "noise between rounds", needs=40),
    Bug(sources.OnceAgain, "repeated noise", needs=40),
    Bug(sources.Antithetic, "noise between coordinates", needs=40),
    Bug(sources.SameMagnitudes, "noise magnitudes", needs=40),
    Bug(sources.SeedPlusRound, "repeated noise", needs=40),
    Bug(sources.OneStreamForAll, "noise between runs", minibatch(clients=3), needs=40),
    Bug(sources.FewBits, "repeated words", needs=40),
    Bug(sources.BitsOfTheTags, "noise and tags", needs=40),
    Bug(sources.NothingMore, "random bits", needs=40),
    Bug(sources.StuckBit, "random bits", needs=40),
    # where the next round begins
    Bug(workers.GoesOnUnnoised, "carried over"),
    Bug(workers.GoesOnUnnoised, "carried over", local()),
    Bug(workers.GoesOnUnnoisedForAWhile, "start models"),
    Bug(workers.AddsWhatIsSubtracted, "carried over"),
    Bug(workers.AddsWhatIsSubtracted, "carried over", local()),
    Bug(workers.KeepsMomentum, "carried over"),
    Bug(workers.RefreshesByStepIndex, "sensitivity", local()),
    # what is sent again, and what is certified
    Bug(workers.NoisesAgain, "messages sent again"),
    Bug(workers.forgetful_outbox, "messages sent again", options={"outbox": workers.forgetful_outbox}),
    Bug(workers.DrawsAgainAfterAKill, "rounds gone on with"),
    Bug(workers.DrawsAgainAfterAKill, "rounds gone on with", local()),
    Bug(workers.StoresItsNoise, "rounds gone on with"),
    Bug(mechanisms.LeavesTheFactorOut, "sensitivity", minibatch(blocks=2)),
    Bug(mechanisms.LeavesTheFactorOut, "sensitivity", local(blocks=2)),
    Bug(mechanisms.ChargesForMoreNoise, "certificate"),
    Bug(mechanisms.ChargesForFewerDraws, "certificate"),
    # a displacement that is clipped as a whole
    Bug(mechanisms.ClipsEachLayer, "certified formula", batch_clip()),
    Bug(mechanisms.ClipsBeforeL2, "certified formula", batch_clip()),
    Bug(mechanisms.ClipsInHalfFloats, "certified formula", batch_clip()),
    Bug(mechanisms.ClipsEachCoordinate, "sensitivity", batch_clip()),
    Bug(mechanisms.ClipsByTheRecords, "sensitivity", batch_clip()),
    Bug(mechanisms.ClipsToTheLastLength, "certified formula", batch_clip()),
    Bug(mechanisms.SendsNoNoiseOfEmptyDraws, "certified formula", batch_clip()),
    Bug(mechanisms.KeepsItsVelocity, "carried over", batch_clip()),
    Bug(mechanisms.CentresByAllRecords, "carried over", batch_clip()),
    Bug(mechanisms.NoiseForOneClip, "certificate", batch_clip()),
    Bug(workers.GoesOnUnnoised, "carried over", batch_clip()),
]


def _unseen(bug: Blind) -> Bug:
    case = minibatch if bug.for_mechanism == "minibatch" else local
    return Bug(bug, "", case(blocks=bug.blocks, bound=bug.bound), {"tries": 100}, needs=_NEEDS.get(bug.name, 12))


# bugs of the draw and of the noise's law show in many rounds alone
_NEEDS = {"a comb of records": 40, "records drawn when they are due": 40, "noise cut at four deviations": 400}

# written from the paper and the mechanism, by people who had not seen the audit
UNSEEN: list[Bug] = [_unseen(bug) for bug in (*blind_bugs.BUGS, *blind_bugs_two.BUGS)]


def caught_by(report: Report) -> list[str]:
    """The names of the checks that failed, without repetition."""
    return list(dict.fromkeys(finding.kind for finding in report.findings))


def table(bugs: Iterable[Bug], **options: Any) -> Iterable[str]:
    """A row for each bug, as markdown."""
    yield "| bug | in | caught by | seconds |"
    yield "|---|---|---|---|"
    for bug in bugs:
        began = time.process_time()
        found = caught_by(bug.audited(**options))
        seconds = time.process_time() - began
        yield f"| {bug.says} | `{bug.case()[0].mechanism}` | {', '.join(found) or '**nothing**'} | {seconds:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="The audit on planted bugs, as a markdown table.")
    parser.add_argument("names", nargs="*", help="of bugs; else all")
    parser.add_argument("--module", help="another module with a list BUGS")
    parser.add_argument("--runs", type=int, default=400)
    given = parser.parse_args()
    bugs = [*BUGS, *UNSEEN] if given.module is None else importlib.import_module(given.module).BUGS
    chosen = [bug for bug in bugs if not given.names or bug.name in given.names]
    for row in table(chosen, runs=given.runs):
        print(row, flush=True)


if __name__ == "__main__":
    main()
