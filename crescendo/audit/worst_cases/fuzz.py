"""Search for the largest influence of one record: no noise, the same draws, and one record more."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from crescendo.audit.driving.lead import Faults
from crescendo.audit.driving.literal import Displacement, public_grid, shortened
from crescendo.audit.driving.subject import Draw, Driver, Script, Subject
from crescendo.audit.worst_cases.scenes import Scene
from crescendo.core.arrays import Floats
from crescendo.core.client import Client
from crescendo.data.records import Records

_CLIMBS = 4  # the best scenes from which the search goes on


@dataclass
class Fuzz(Faults):
    """The result of the search. ``worst`` is the largest release difference over the certified sensitivity.

    ``usual`` is the worst scene at the step sizes as configured, with its ratio: what real releases are tested on.
    """

    worst: float = 0.0
    scene: Scene | None = None
    usual: tuple[float, Scene] | None = None
    carried: float = 0.0
    tries: int = 0

    @classmethod
    def search(cls, subject: Subject, rng: np.random.Generator, tries: int) -> Fuzz:
        """Hard scenes, then random ones, then climbs from the best."""
        result = cls()
        for scene in Scene.hard(subject, rng):
            _try(subject, scene, result)
        best = []
        for make in (Scene.random, Scene.spread):
            pool = [(_try(subject, scene, result), scene) for scene in (make(subject, rng) for _ in range(tries // 4))]
            best += sorted(pool, key=lambda pair: -pair[0])[: _CLIMBS // 2]
        for ratio, scene in best:
            for _ in range(tries // 2 // _CLIMBS):
                other = scene.mutated(rng)
                if _allowed(subject, other) and (better := _try(subject, other, result)) > ratio:
                    ratio, scene = better, other
        _carry(subject, rng, result, tries // 8 + 1)
        _empty(subject, result)
        return result


def _largest_step_factor(subject: Subject) -> float:
    """By how much the largest step of a certificate may grow before one of its conditions fails."""
    tight = [
        c.right / c.left
        for c in subject.certificate.conditions
        if c.name in ("non-expansive steps", "shrink") and c.left > 0
    ]
    return min(tight, default=1.0)


def _stepped(subject: Subject, share: float | None) -> Subject:
    """The subject with a constant step of this share of the largest that its certificate allows."""
    if share is None:
        return subject
    terms, me = subject.certificate.terms, subject.me
    largest = max(float(np.max(terms.etas(i, me), initial=0.0)) for pair in subject.pairs() for i in pair)
    return subject.with_step(largest * max(1.0, _largest_step_factor(subject)) * share)


def difference(subject: Subject, scene: Scene) -> list[tuple[float, Floats]]:
    """For two rounds in a row: |release with - release without| / sensitivity, and the difference itself."""
    # without noise the wire's rounding would show; in a real release it comes after the noise and depends on nothing else
    subject, n = replace(_stepped(subject.without_noise(), scene.step), wire="float64"), len(scene.y) - 1
    data, everyone = scene.data(subject.features), np.arange(n + 1)
    both = []
    rounds = scene.rounds(subject)
    starts = tuple(scene.start for _ in rounds)
    for count in (n, n + 1):
        source = Script(dict.fromkeys(rounds, scene.draw(count)))
        both.append(subject.releases(data, everyone[:count], source, rounds, starts, scene.disturb))
    certified = [subject.certificate.sensitivity(i, subject.me) for i in rounds]
    with np.errstate(invalid="ignore"):
        apart = [b - a for a, b in zip(*both, strict=True)]
    return [(float(np.linalg.norm(d)) / s if s else np.inf, d) for d, s in zip(apart, certified, strict=True)]


def _allowed(subject: Subject, scene: Scene) -> bool:
    return float(np.max(np.abs(scene.start), initial=0.0)) < 0.1 * subject.certificate.model_bound


def _try(subject: Subject, scene: Scene, result: Fuzz) -> float:
    """The scene's ratio; what goes wrong otherwise is noted."""
    result.tries += 1
    ratios: list[float] = []
    with result.noting(scene.name):
        ratios = [ratio for ratio, _ in difference(subject, scene)]
    if not ratios:
        return 0.0
    ratio = max(ratios)
    if not np.isfinite(ratio):
        result.note("runs to the end", f"{scene.name} made a release that is not finite")
        return 0.0
    if ratio > result.worst or result.scene is None:
        result.worst, result.scene = ratio, scene
    if scene.step is None and scene.disturb is None and (result.usual is None or min(ratios) > result.usual[0]):
        result.usual = min(ratios), scene
    return ratio


def _empty(subject: Subject, result: Fuzz) -> None:
    """A draw without records is sent as any other is."""
    rounds, size = subject.pairs()[-1], subject.objective.size
    scene = Scene.random(subject, np.random.Generator(np.random.Philox(1)), others=1)
    starts = tuple(np.zeros(size) for _ in rounds)
    with result.noting("an empty draw"):
        subject.releases(scene.data(subject.features), np.arange(2), Script({}), rounds, starts)


def _carry(subject: Subject, rng: np.random.Generator, result: Fuzz, tries: int) -> None:
    """Equal releases of one round, made so by the noise: the next round, without the record, must then be equal as well.

    Else the next start is a function of more than what was sent. Re-sent messages are looked at on the way.
    """
    for _ in range(tries):
        scene = Scene.random(subject, rng, others=int(rng.choice([3, 12, 30])))
        with result.noting(scene.name):
            result.carried = max(result.carried, _carried(subject, scene, rng, result))


def _carried(subject: Subject, scene: Scene, rng: np.random.Generator, result: Fuzz) -> float:
    rounds = scene.rounds(subject)
    if len(rounds) < 2:
        return 0.0
    subject = replace(subject, wire="float64")
    (first, second), scale = rounds, subject.scale(rounds[0])
    n, data = len(scene.y) - 1, scene.data(subject.features)
    draws = [scene.draw(count) for count in (n, n + 1)]
    quiet = [
        subject.without_noise().releases(data, np.arange(len(d.tags)), Script({first: d}), rounds[:1], (scene.start,))[
            0
        ]
        for d in draws
    ]
    public = _public(subject, data, scene.start, first)
    g = public_grid(scale)
    target = (
        np.rint((quiet[0] - public + scale * rng.normal(size=len(public))) / g) * g
    )  # both releases, without the public part
    sent, later = [], []
    for draw, hidden in zip(draws, quiet, strict=True):
        push = (target - (hidden - public)) / scale
        rows = np.arange(len(draw.tags))
        driver = Driver(subject, data, rows, Script({first: draw, second: draws[0]}, push={first: push}), scene.start)
        driver.begin(first, scene.start)
        sent.append(driver.run(first))
        _resend(driver, result)
        if not driver.may_go_on(second):
            return 0.0
        later.append(driver.run(second))
        _resend(driver, result)
    if not np.array_equal(sent[0], sent[1]):
        return 0.0  # noise is not what it is certified to be; other checks say so
    return float(np.linalg.norm(later[0] - later[1])) / subject.certificate.sensitivity(second, subject.me)


def _public(subject: Subject, data: Records, start: Floats, i: int) -> Floats:
    """Return the part of round i's release that depends on no record and gets no noise."""
    start, nobody = shortened(start, subject.certificate.model_bound), Draw.none()
    return Displacement.of(subject.certificate, subject.me, data, start, i, nobody.members, nobody.tags).public


def _resend(driver: Driver, result: Fuzz) -> None:
    """What is sent again, also by a client that was stopped and started, is what was sent, byte for byte."""
    client = driver.worker.client
    revived = type(client).restore(client.terms, client.export()) if isinstance(client, Client) else client
    first = {update.round: update.delta.tobytes() for update in driver.sent}
    for again in (*client.unacknowledged(), *client.unacknowledged(), *revived.unacknowledged()):
        if again.delta.tobytes() != first.get(again.round):
            result.note("messages sent again", f"round {again.round} was sent again with other bytes")
