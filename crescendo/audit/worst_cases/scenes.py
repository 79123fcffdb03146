"""Neighbouring data and start models for the search: near misses of the clip's kink, long records, broken records."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crescendo.audit.driving.subject import Draw, Subject
from crescendo.core.arrays import Floats, Ints
from crescendo.data.records import Records, as_records

_ACTIVE = 4  # features that a synthetic record uses: two directions, and some to be apart in
_OVERLONG = "records over the norm bound"
_MOST_NUMBERS = 2_000_000  # in the records of one scene


@dataclass(frozen=True, eq=False)
class Scene:
    """Records of which the last is the one in question, a start model, and a tag for each record: all are drawn.

    ``x`` has the features ``columns`` only, the others are 0. ``step`` is a share of the largest certified step, None for
    the step sizes as configured.
    """

    x: Floats
    y: Floats
    start: Floats
    tags: Floats
    columns: Ints
    step: float | None = None
    sparse: bool = False
    disturb: Floats | None = None
    name: str = "search"
    pair: int = -1  # which two rounds in a row, of `Subject.pairs`
    labels: tuple[float, ...] | None = None  # that a record may have; None where all are such

    def rounds(self, subject: Subject) -> tuple[int, ...]:
        """Two rounds in a row that the scene is about."""
        pairs = subject.pairs()
        return pairs[max(self.pair, -len(pairs))]

    def draw(self, count: int) -> Draw:
        """The first ``count`` records, all of them."""
        sound = np.isfinite(self.x[:count]).all(axis=1) & np.isfinite(self.y[:count])
        if self.labels is not None:
            sound &= np.isin(self.y[:count], self.labels)
        return Draw(np.arange(count), self.tags[:count], sound)

    def data(self, features: int) -> Records:
        wide = np.zeros((len(self.x), features))
        wide[:, self.columns] = self.x
        if not self.sparse:
            return as_records(wide, self.y)
        from scipy.sparse import csr_array

        return as_records(csr_array(wide), self.y)

    @classmethod
    def random(cls, subject: Subject, rng: np.random.Generator, others: int | None = None) -> Scene:
        """Records along few directions, labels at random, and a model whose margins are near where clipping begins."""
        active, size = min(_ACTIVE, subject.features), subject.objective.size
        n = int(rng.choice([1, 2, 3, 6, 12, 30])) if others is None else others
        axes = [_unit(rng, active) for _ in range(2)]
        which = rng.integers(0, 2, n + 1) if rng.random() < 0.5 else np.zeros(n + 1, int)
        signs = rng.choice([-1.0, 1.0], n + 1) if rng.random() < 0.5 else np.ones(n + 1)
        length = _length(subject, rng)
        x = np.array([axes[k] * sign * length for k, sign in zip(which, signs, strict=True)])
        if rng.random() < 0.3:
            x[-1] = _unit(rng, active) * _length(subject, rng)
        y = np.full(n + 1, rng.choice(subject.labels)) if rng.random() < 0.6 else rng.choice(subject.labels, n + 1)
        columns = np.sort(rng.choice(subject.features, active, replace=False))
        start = np.zeros(size)
        start[columns] = axes[0] * _margin(subject, rng, length) / max(length, 1e-9)
        start[columns] += rng.normal(size=active) * rng.choice([0.0, 0.0, 0.3, 3.0])
        l2 = subject.objective.traits.l2
        if l2 > 0 and rng.random() < 0.3:  # where an L2 part inside the clip would weigh as much as the clip
            away = _unit(rng, active)
            away -= axes[0] * float(axes[0] @ away)
            start[columns] += away * subject.certificate.clip / l2 * 10 ** rng.uniform(-0.7, 0.7)
        if size > subject.features and rng.random() < 0.3:
            start[-1] = rng.normal() * 3
        if size > active and rng.random() < 0.3:
            start += rng.normal(size=size) * 0.3
        tags = rng.random(n + 1)
        if rng.random() < 0.7:
            tags[-1] = 0.0  # first: all later steps see what it did
        step = float(rng.choice([1.0, 1.0, rng.random() + 1e-3])) if subject.certificate.mechanism == "local" else None
        sparse = bool(rng.random() < 0.3 and subject.features > 8)
        pair = int(rng.integers(3)) - 3
        scene = cls(x, y, start, tags, columns, step if rng.random() < 0.7 else None, sparse, pair=pair)
        return replace(scene, x=x * 2.0, name=_OVERLONG) if rng.random() < 0.2 else scene

    @classmethod
    def spread(cls, subject: Subject, rng: np.random.Generator) -> Scene:
        """Records along several directions, almost at right angles to the one in question, labels in turn.

        Where steps are too long, what the record did grows a little along each direction at every other step: only in several
        directions together can it grow beyond the record's own step.
        """
        active, size, bound = min(2 * _ACTIVE, subject.features), subject.objective.size, subject.certificate.norm_bound
        overlong = bound is not None and rng.random() < 0.3  # as long as a bound on x alone would leave them
        length = bound if overlong and bound is not None else max(_length(subject, rng), 1e-3)
        own, axes = _directions(length, _ones(subject), active, float(rng.choice([0.03, 0.1, 0.2, 0.4])), rng)
        turns = int(rng.integers(1, 4))
        x = np.concatenate([np.tile(np.repeat(axes, 2, axis=0), (turns, 1)), own[None]])
        n = len(x) - 1
        y = np.append(np.tile([subject.labels[-1], subject.labels[0]], n // 2), rng.choice(subject.labels))
        kinks = _kink(subject, length) + rng.normal(size=len(axes)) * rng.choice([0.0, 0.1, 0.5])
        columns = np.sort(rng.choice(subject.features, active, replace=False))
        start = np.zeros(size)
        start[columns] = np.linalg.lstsq(axes, kinks, rcond=None)[0]
        tags = np.append(np.arange(1, n + 1) / (n + 1), 0.0)
        scene = cls(x, y, start, tags, columns, 1.0 if subject.certificate.mechanism == "local" else None)
        return replace(scene, x=10 * x, name=_OVERLONG) if overlong else scene

    @classmethod
    def hard(cls, subject: Subject, rng: np.random.Generator) -> list[Scene]:
        """Scenes that no search would come upon: records that are broken or too long, many records, a broadcast in mid-round."""
        found: list[Scene] = []
        plain = cls.random(subject, rng, others=2)
        bound = subject.certificate.norm_bound or 10.0
        broken: list[tuple[str, Any]] = [
            ("nan", math.nan),
            ("infinite", math.inf),
            ("huge", 1e200),
            ("vast and of both signs", 1.7e308 * (-1.0) ** np.arange(plain.x.shape[1])),
            ("long", 10 * bound),
            ("zero", 0.0),
        ]
        for name, value in broken:
            for where in (0, -1):
                x = plain.x.copy()
                x[where] = value
                found.append(replace(plain, x=x, name=f"a record that is {name}"))
        for where in (0, -1):
            y = plain.y.copy()
            y[where] = math.nan
            found.append(replace(plain, y=y, name="a label that is nan"))
        found += _odd_labels(subject, rng)
        found += (_opposed(subject, rng, share) for share in (0.01, 0.1, 0.5, 1.0))
        for k in range(8):
            long = cls.random(subject, rng, others=int(rng.choice([3, 12])))
            found.append(replace(long, x=long.x * (1.0 + 3.0 * rng.random()), name=_OVERLONG))
            found.append(_cancelling(subject, rng, odd=k % 2))
        share = max(subject.certificate.terms.share(i, subject.me) for pair in subject.pairs() for i in pair)
        if (2 * share + 3) * subject.features <= _MOST_NUMBERS:
            for _ in range(3):
                crowd = cls.random(subject, rng, others=2 * share + 2)
                y = crowd.y.copy()
                y[:-1], y[-1] = subject.labels[0], subject.labels[-1]
                same = np.tile(crowd.x[:1], (len(crowd.x), 1))
                found.append(replace(crowd, x=same, y=y, start=crowd.start * 0, name="more records than slots"))
        for _ in range(12):
            calm = cls.random(subject, rng, others=int(rng.choice([2, 6, 12])))
            far = calm.start + rng.normal(size=len(calm.start)) * rng.choice([1.0, 10.0])
            found.append(replace(calm, disturb=far, name="a broadcast in mid-round"))
        return found

    def mutated(self, rng: np.random.Generator) -> Scene:
        """A scene a little off."""
        kind = rng.integers(6)
        if kind == 0:
            return replace(self, start=self.start + rng.normal(size=len(self.start)) * 10 ** rng.uniform(-3, 0))
        if kind == 1:
            return replace(self, start=self.start * (1 + rng.normal() * 10 ** rng.uniform(-3, 0)))
        if kind == 2 and len(self.y) < 60:
            k = int(rng.integers(len(self.y)))
            return replace(
                self,
                x=np.insert(self.x, 0, self.x[k], axis=0),
                y=np.insert(self.y, 0, self.y[k]),
                tags=np.insert(self.tags, 0, rng.random()),
            )
        if kind == 3:
            tags = self.tags.copy()
            tags[int(rng.integers(len(tags)))] = rng.random()
            return replace(self, tags=tags)
        if kind == 4:
            y, k = self.y.copy(), int(rng.integers(len(self.y)))
            y[k] = rng.choice(self.y)
            return replace(self, y=y)
        x, k = self.x.copy(), int(rng.integers(len(self.x)))
        turned = x[k] + rng.normal(size=x.shape[1]) * np.linalg.norm(x[k]) * 10 ** rng.uniform(-2, 0)
        x[k] = turned * np.linalg.norm(x[k]) / max(float(np.linalg.norm(turned)), 1e-300)
        return replace(self, x=x)


def _length(subject: Subject, rng: np.random.Generator) -> float:
    """Of x: mostly the longest allowed; anything where nothing is promised."""
    bound = subject.certificate.norm_bound
    if bound is None:
        return float(10 ** rng.uniform(-1, 2))
    longest = math.sqrt(max(bound**2 - _ones(subject), 0.0))
    return longest if rng.random() < 0.7 else longest * float(rng.random())


def _ones(subject: Subject) -> float:
    return float(subject.objective.traits.intercept)


def _unit(rng: np.random.Generator, size: int) -> Floats:
    v = rng.normal(size=size)
    return np.asarray(v / np.linalg.norm(v))


def _directions(
    length: float, ones: float, active: int, tilt: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """A record of this length and others, such that all (x, 1) are at right angles but for a tilt towards the first."""
    square = length**2 + ones
    count = max(1, min(active - 1, int(square / ones) - 1 if ones else active))
    gram = square * np.eye(count + 1)
    gram[0, 1:] = gram[1:, 0] = square * tilt / math.sqrt(count)
    values, vectors = np.linalg.eigh(gram - ones)
    x = np.zeros((count + 1, active))
    kept = min(active, count + 1)
    x[:, :kept] = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, -kept:]
    x *= length / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300)
    x = x @ np.linalg.qr(rng.normal(size=(active, active)))[0]
    return x[0], x[1:]


def _margin(subject: Subject, rng: np.random.Generator, length: float) -> float:
    """Where a logistic gradient begins to be clipped, more or less; else anything."""
    return float(rng.choice([-1.0, 1.0]) * (_kink(subject, length) + rng.normal() * rng.choice([0.1, 0.5, 2.0])))


def _kink(subject: Subject, length: float) -> float:
    p = subject.certificate.clip / math.hypot(length, _ones(subject))
    return math.log((1 - p) / p) if 0 < p < 0.5 else 0.0


def _odd_labels(subject: Subject, rng: np.random.Generator) -> Iterator[Scene]:
    """Records whose labels are no labels, beside others: what becomes of them must not depend on who else is there.

    All records are the same, so that whatever becomes of several of them adds up.
    """
    plain = Scene.random(subject, rng, others=6)
    plain = replace(plain, x=np.tile(plain.x[:1], (len(plain.x), 1)), start=np.zeros_like(plain.start))
    for odd in (0.0, -1.0, 2.0, 0.5, -7.0):
        if odd in subject.labels:
            continue
        for kept in (*subject.labels[:2], odd):
            for last in subject.labels[:2]:
                y = np.where(np.arange(len(plain.y)) % 2, odd, kept)
                y[-1] = last
                yield replace(plain, y=y, labels=subject.labels, step=None, name=f"labels {odd:g} that are no labels")


def _opposed(subject: Subject, rng: np.random.Generator, share: float) -> Scene:
    """Two records that pull in opposite directions, the one in question more: it turns a round that is clipped as a whole."""
    scene = Scene.random(subject, rng, others=1)
    longest = math.sqrt(max((subject.certificate.norm_bound or 1e3) ** 2 - _ones(subject), 0.0))
    along = _unit(rng, scene.x.shape[1]) * longest
    y = np.full(2, subject.labels[0])
    x = np.array([share * along, -along])
    return replace(scene, x=x, y=y, start=np.zeros_like(scene.start), step=None, name="records that oppose each other")


def _cancelling(subject: Subject, rng: np.random.Generator, odd: int) -> Scene:
    """Long records whose margin is a small difference of large terms: it must not depend on who else is in the batch."""
    width = min(subject.features, 20)
    n = int(rng.choice([1, 2, 3, 8, 30])) + odd
    row = rng.normal(size=width) * 10.0 ** rng.uniform(0, 17, size=width)
    start = np.zeros(subject.objective.size)
    start[:width] = rng.normal(size=width)
    largest = int(np.argmax(np.abs(row)))
    start[largest] -= float(row @ start[:width]) / row[largest]
    return Scene(
        np.tile(row, (n + 1, 1)),
        rng.choice(subject.labels, n + 1),
        start,
        rng.random(n + 1),
        np.arange(width),
        name="records of large terms that cancel",
    )
