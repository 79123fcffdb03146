"""A round that another process goes on with is the round of a process that was never killed: the same records, the same bits.

Every mechanism with every kind of stepper, written down at random slots and read back; without sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.core.arrays import Floats
from crescendo.core.client import Client
from crescendo.core.messages import Broadcast, Settled
from crescendo.core.terms import Terms
from crescendo.data.records import Records, as_records
from crescendo.errors import UsageError
from crescendo.objectives import Logistic, LoopStepper, OwnModel
from crescendo.privacy.mechanisms.certificate import Certificate
from crescendo.privacy.mechanisms.mechanism import Private
from crescendo.privacy.mechanisms.mechanism_kinds import certify
from crescendo.privacy.mechanisms.noise import SystemSource
from crescendo.schedules.sizes import ConstantSizes, CutSizes
from crescendo.schedules.steps import ConstantSteps
from crescendo.storage.round_checkpoint import RoundCheckpoint
from crescendo.worker import Worker

SLOTS, ROUNDS, COUNT, FEATURES = 32, 4, 60, 5
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(COUNT, FEATURES)) / 2, RNG.choice([0.0, 1.0], COUNT)


class Squares:
    """A user's own model: linear regression, without a stepper of its own."""

    def initial(self, rng: Any) -> Any:
        return np.full(FEATURES, 0.1)

    def gradient(self, w: Any, data: Any, rows: Any) -> Any:
        x, y = data.x[rows], data.y[rows]
        return x.T @ (x @ w - y)

    def evaluate(self, w: Any, data: Any) -> dict[str, float]:
        return {"loss": 0.0}


def torch_model(running: bool = False, dropout: float = 0.0, **options: Any) -> Any:
    torch = pytest.importorskip("torch", reason="torch is not installed: the torch extra")
    torch.manual_seed(1)
    norm = [torch.nn.BatchNorm1d(6, momentum=None)] if running else []  # counts the batches that it has seen
    some = [torch.nn.Dropout(dropout)] if dropout else []
    net = torch.nn.Sequential(torch.nn.Linear(FEATURES, 6), *norm, torch.nn.Tanh(), *some, torch.nn.Linear(6, 2))
    return crescendo.torch.model(net, **options)


def jax_model(**options: Any) -> Any:
    jax = pytest.importorskip("jax", reason="jax is not installed: the jax extra")
    rng = np.random.default_rng(2)
    first = {"w": rng.normal(size=(FEATURES, 3)).astype(np.float32), "v": rng.normal(size=(3, 2)).astype(np.float32)}

    def loss(params: Any, x: Any, y: Any) -> Any:
        scores = jax.nn.log_softmax(jax.numpy.tanh(x @ params["w"]) @ params["v"])
        return -jax.numpy.take_along_axis(scores, y[:, None], 1)[:, 0]

    return crescendo.jax.model(loss, first, **options)


MODELS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: Logistic(FEATURES, l2=0.05),
    "own": Squares,
    "torch": lambda: torch_model(l2=0.01),
    "torch momentum, BatchNorm": lambda: torch_model(running=True, momentum=0.9, batch=4),
    "torch adam, dropout": lambda: torch_model(dropout=0.4, optimiser="adam", batch=3),
    "jax": lambda: jax_model(l2=0.01),
    "jax momentum": lambda: jax_model(momentum=0.9),
    "jax adam": lambda: jax_model(optimiser="adam", batch=3),
}
CASES = [
    *(("none", model, 1) for model in MODELS),
    ("none", "logistic", 2),
    ("none", "torch", 2),
    ("minibatch", "logistic", 1),
    ("minibatch", "own", 2),
    ("minibatch", "torch", 1),
    ("minibatch", "jax", 1),
    ("local", "logistic", 1),
    ("local", "logistic", 2),
    ("batch-clip", "logistic", 1),
    ("batch-clip", "own", 2),
    ("batch-clip", "torch adam, dropout", 1),
    ("batch-clip", "jax adam", 1),
]


@cache
def model_of(kind: str) -> Any:
    """One for all workers: a JAX model is compiled once. What a round makes is in its stepper, and each worker has its own."""
    made = MODELS[kind]()
    return made if isinstance(made, Logistic) else OwnModel(made, as_records(X, Y))


@dataclass
class Scene:
    """One client's records and terms, and the processes that work for it."""

    mechanism: str
    kind: str
    blocks: int = 1
    data: Records = field(default_factory=lambda: as_records(X, Y))

    def __post_init__(self) -> None:
        self.objective, private = model_of(self.kind), self.mechanism != "none"
        sizes = CutSizes.of_rounds(ConstantSizes(SLOTS), ROUNDS)
        self.terms = Terms(sizes, ConstantSteps(0.2), (1.0,), ROUNDS, ahead=2, blocks=self.blocks, whole_rounds=private)
        self.certificate: Certificate | None = None
        if private:
            options: dict[str, Any] = {"clip": 0.5, "sigma": 1.0, "records": (COUNT,), "norm_bound": 4.0}
            self.certificate = certify(self.mechanism, self.terms, self.objective, **options)

    def process(self) -> Worker:
        """A worker as a new process makes it: with randomness of the operating system."""
        rows, first = np.arange(COUNT), self.objective.initial(np.random.default_rng(0))
        made = None if self.certificate is None else Private(self.certificate, 0, rows, SystemSource())
        return Worker(self.terms, 0, first, self.objective, self.data, rows, 3, "float64", made)

    def hidden(self, worker: Worker) -> Floats:
        """The displacement of a full round, before any noise; what is public of it comes after the rest."""
        i, start = worker.client.round, worker._mechanism.start(worker.client.frame)
        if self.certificate is None:
            return worker._mechanism.release(i, start, worker._stepper)
        return np.append(*self.certificate.kind.parts(self.certificate, i, start, worker._stepper))


def kept(worker: Worker, path: Path) -> None:
    client, made = worker.client, worker.export()
    assert isinstance(client, Client) and made is not None
    RoundCheckpoint({"terms": "t"}, 0, client.export(), made).write(path)


def revived(scene: Scene, path: Path) -> Worker:
    """Another process that goes on from the file alone."""
    worker, found = scene.process(), RoundCheckpoint.read(path)
    assert found is not None
    worker.resume(Client.restore(scene.terms, dict(found.client)), found.made)
    return worker


def run(
    worker: Worker, rng: np.random.Generator, news: dict[int, Broadcast], after: Callable[[Worker], None] | None = None
) -> None:
    """The rest of the round in pieces of any length, with broadcasts at their slots."""
    first = worker.client.h
    stops = {*news, SLOTS, *rng.integers(first, SLOTS + 1, 6).tolist()}
    for stop in sorted(stop for stop in stops if stop >= first):
        worker.run(stop - worker.client.h)
        if after is not None:
            after(worker)
        if stop in news:
            worker.receive(news[stop])


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "kind", "blocks"), CASES)
def test_a_round_gone_on_with_is_that_of_a_client_never_killed(
    mechanism: str, kind: str, blocks: int, tmp_path: Path
) -> None:
    scene, rng = Scene(mechanism, kind, blocks), np.random.default_rng([ord(c) for c in mechanism + kind])
    never = scene.process()
    run(never, rng, {})
    sent = [never.finish()]
    model = never.client.start()  # what the server has: the first model, moved by the first round
    news = {int(h): Broadcast(model + 0.01 * n, 1, Settled(1), epoch=n) for n, h in enumerate(rng.integers(3, 25, 2))}
    never.begin()
    files: list[Path] = []

    def keep(worker: Worker) -> None:
        files.append(tmp_path / f"{len(files)}.checkpoint")
        kept(worker, files[-1])

    run(never, rng, news, keep)
    assert never.round_is_full and len(files) >= 5
    expected, drawn, noised = scene.hidden(never), never._slots, never.finish().delta
    for file in files:
        other = revived(scene, file)
        later = {h: broadcast for h, broadcast in news.items() if h >= other.client.h}
        run(other, rng, later)
        assert other._slots is not None and drawn is not None
        np.testing.assert_array_equal(other._slots.rows, drawn.rows)
        assert scene.hidden(other).tobytes() == expected.tobytes(), file.name
        released = other.finish()
        assert released.round == 1
        assert np.array_equal(released.delta, noised) == (mechanism == "none")  # noise is drawn at the release, anew
    assert np.abs(expected).max() > 1e-4 and sent[0].round == 0


def test_a_stepper_that_keeps_more_than_its_parent_is_not_written_down() -> None:
    class Heavy(LoopStepper):
        velocity = 0.0

    class Pushed(Squares):
        def stepper(self, data: Any) -> Heavy:
            return Heavy(OwnModel(Squares(), data), data)

    scene = Scene("none", "own")
    scene.objective = OwnModel(Pushed(), scene.data)
    worker = scene.process()
    worker.run(3)
    assert worker.export() is None


@pytest.mark.parametrize("mechanism", ["none", "minibatch", "batch-clip"])
def test_what_was_stored_of_another_round_is_refused_and_no_round_is_in_hand(mechanism: str) -> None:
    scene = Scene(mechanism, "own")
    worker = scene.process()
    worker.run(7)
    made = worker.export()
    assert made is not None

    def resume(**changes: Any) -> Worker:
        other = scene.process()
        state = {name: array for name, array in {**made, **changes}.items() if array is not None}
        assert isinstance(worker.client, Client)
        client = Client.restore(scene.terms, {**worker.client.export(), "frame": None})
        other.resume(client, state)
        return other

    resume()
    (of_stepper,) = [name for name in made if name.endswith((".w", ".sum"))]
    wrong: list[dict[str, Any]] = [
        {"rows": made["rows"] + COUNT},
        {"rows": made["rows"] - COUNT},
        {"rows": made["rows"].astype(np.float64)},
        {"rows": None},
        {of_stepper: made[of_stepper][:-1]},
        {of_stepper: made[of_stepper].astype(np.float32)},
        {of_stepper: None},
        {"rows": made["rows"][:-1]},
    ]
    for changes in wrong:
        with pytest.raises(UsageError):
            resume(**changes)


def test_a_batch_clip_round_that_failed_stays_failed(tmp_path: Path) -> None:
    """What failed was a record's doing: the round hides 0 whoever goes on with it."""
    breaks = tmp_path / "breaks"

    class Breaks(Squares):
        def gradient(self, w: Any, data: Any, rows: Any) -> Any:
            if len(data) < COUNT and breaks.exists():  # a file, as isolation puts back all that the code keeps
                raise ValueError("record 3")
            return super().gradient(w, data, rows)

    scene = Scene("batch-clip", "own")
    scene.objective = OwnModel(Breaks(), scene.data)
    options: dict[str, Any] = {"clip": 0.5, "sigma": 1.0, "records": (COUNT,)}
    scene.certificate = certify("batch-clip", scene.terms, scene.objective, **options)
    worker = scene.process()
    worker.run(4)
    breaks.touch()
    worker.run(21)
    made = worker.export()
    assert made is not None and bool(made["stepper.failed"]) and isinstance(worker.client, Client)
    breaks.unlink()
    other = scene.process()
    other.resume(Client.restore(scene.terms, {**worker.client.export(), "frame": None}), made)
    other.run(SLOTS - 25)
    assert not scene.hidden(other).any()
