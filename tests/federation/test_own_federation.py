"""A model of somebody's own in a federation: each side has its own copy, and nothing of a peer's is ever run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.errors import ConfigError, CrescendoError, Refused
from crescendo.federation.agreement import build_terms
from crescendo.federation.own_model import servers_copy, with_copy
from crescendo.federation.own_records import RecordSource
from crescendo.federation.policy import Policy
from crescendo.network.client.join import COPY, Joined, join
from crescendo.network.transport.channels import Endpoint
from crescendo.network.transport.retry import Backoff
from crescendo.objectives import ModelFile, OwnModel
from crescendo.storage.ledger.open_ledger import open_ledger
from tests.conformance.cases import OWN_MODEL, PRIVATE, case, own
from tests.network.live_server import LiveServer, live_server

OPEN: dict[str, Any] = {"mechanisms": ["none"]}
MINIBATCH: dict[str, Any] = {"mechanism": "minibatch", **PRIVATE}
MODEL = """
import os
import numpy as np
if os.environ.get("TEST_MODEL") == "fails":
    raise RuntimeError("a secret of this machine")
class Mean:
    def __init__(self, features, scale=1.0):
        self.features, self.seen = features + (os.environ.get("TEST_MODEL") == "wider"), 0
    def initial(self, rng):
        return rng.standard_normal(self.features) + (os.environ.get("TEST_MODEL") == "elsewhere")
    def gradient(self, w, data, rows):
        self.seen += 1
        return len(rows) * w - np.resize(data.x[rows].sum(axis=0), len(w)) {more}
    def evaluate(self, w, data):
        return {{"loss": 0.0}}
"""


def played(play: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(play(), 300))


def written(folder: Path, more: str = "") -> str:
    """A model's file; its kind, by an absolute path."""
    folder.mkdir(exist_ok=True)
    (folder / "mean.py").write_text(MODEL.format(more=more))
    return f"{folder / 'mean.py'}:Mean"


def federation(kind: str, **changes: dict[str, Any]) -> dict[str, Any]:
    raw = case(
        clients={"count": 1},
        data={"source": "with the clients", "classes": [1, 2, 3]},
        schedule={"rounds": 4, "sizes": {"kind": "constant", "size": 50}},
        **changes,
    )
    return {**raw, "objective": {"kind": kind}}


async def joined(on: LiveServer, folder: Path, kind: str | None, policy: dict[str, Any], log: list[Any]) -> Joined:
    """A client in a thread of this process, until it ends."""
    x = np.random.default_rng(0).normal(size=(200, 4))
    np.savez(folder / "mine.npz", x=x, y=np.resize([1, 2, 3], 200))
    return await asyncio.to_thread(
        join,
        Endpoint(f"127.0.0.1:{on.port}"),
        "client 0",
        RecordSource(str(folder / "mine.npz")),
        folder / "client",
        Policy.model_validate(policy),
        model=None if kind is None else ModelFile.read(kind),
        log=lambda event, **facts: log.append({"event": event, **facts}),
        backoff=Backoff(0.02, 0.2),
    )


def declined(folder: Path, raw: dict[str, Any], kind: str | None, policy: dict[str, Any], before: Any = None) -> str:
    """Why a client with this copy and policy refuses; the server hears what rests on the terms, and nothing is signed."""
    said = []

    async def play() -> None:
        log: list[Any] = []
        async with live_server(folder / "served", raw) as on:
            if before is not None:
                before()
            with pytest.raises(Refused) as refused:
                await joined(on, folder, kind, policy, log)
            assert [facts["reason"] for facts in log if facts["event"] == "declined"] == [str(refused.value)]
            told = [facts["reason"] for facts in on.events("declined")]
            assert told == [refused.value.public]
            assert told in ([str(refused.value)], [COPY]) or told[0].endswith(
                "which this client's policy does not allow"
            )
            assert not on.service.durable.instances
            path = folder / "client" / "ledger.sqlite"
            with open_ledger(path) as ledger, pytest.raises(Refused, match="not signed off"):
                ledger.last_round("conformance")
        said.append(str(refused.value))

    played(play)
    assert "\n" not in said[0]
    return said[0]


@pytest.mark.slow
def test_a_client_with_its_own_copy_takes_part_to_the_end(tmp_path: Path) -> None:
    """Also under another file name, and allowed by name or by hash."""
    kind = written(tmp_path / "server")
    (tmp_path / "mine.py").write_bytes((tmp_path / "server" / "mean.py").read_bytes())
    copy = f"{tmp_path / 'mine.py'}:Mean"

    async def play() -> None:
        async with live_server(tmp_path / "served", federation(kind)) as on:
            for allowed in ("mean.py:Mean", ModelFile.read(copy).sha256):
                result = await joined(on, tmp_path, copy, {**OPEN, "objectives": ["logistic", allowed]}, [])
            assert result.last == 3 and on.service.durable.finished
            np.testing.assert_allclose(result.model, on.service.durable.model)

    played(play)


TORCH_MODEL = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self, features, hidden=4):
        super().__init__(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, 3))
"""


JAX_MODEL = """
import jax, jax.numpy as jnp

class Net:
    def __init__(self, features, hidden=4):
        self.sizes = features, hidden

    def params(self, rng):
        first, last = jax.random.split(rng)
        return {"a": jax.random.normal(first, self.sizes), "b": jnp.zeros(self.sizes[1]),
                "c": jax.random.normal(last, (self.sizes[1], 3)), "d": jnp.zeros(3)}

    def loss(self, params, x, y):
        outputs = jax.nn.relu(x @ params["a"] + params["b"]) @ params["c"] + params["d"]
        return -jnp.take_along_axis(jax.nn.log_softmax(outputs), y[:, None], 1).mean()
"""


@pytest.mark.slow
@pytest.mark.parametrize("privacy", [{"mechanism": "none"}, {**MINIBATCH, "records": 200}], ids=["plain", "private"])
@pytest.mark.parametrize(("library", "source"), [("torch", TORCH_MODEL), ("jax", JAX_MODEL)], ids=["torch", "jax"])
def test_a_neural_model_is_served_like_any_other(
    tmp_path: Path, library: str, source: str, privacy: dict[str, Any]
) -> None:
    """The client names its copy with the word torch or jax or without: the terms say what kind of model it is."""
    pytest.importorskip(library, reason=f"{library} is not installed: the {library} extra")
    (tmp_path / "net.py").write_text(source)
    copy = f"{tmp_path / 'net.py'}:Net"
    raw = federation(f"{library}:{copy}", privacy=privacy)
    raw["objective"]["options"] = {"hidden": 5}
    policy = OPEN if privacy["mechanism"] == "none" else {"epsilon": 50.0, "delta": 1e-5}

    async def play() -> None:
        async with live_server(tmp_path / "served", raw) as on:
            start = on.service.durable.model.copy()
            result = await joined(on, tmp_path, copy, policy, [])
            assert result.last == 3 and on.service.durable.finished
            np.testing.assert_allclose(result.model, on.service.durable.model)
            assert len(start) == 4 * 5 + 5 + 5 * 3 + 3 and not np.array_equal(result.model, start)

    played(play)


@pytest.mark.slow
def test_a_private_federation_of_an_own_model_runs_and_is_charged(tmp_path: Path) -> None:
    kind = written(tmp_path)
    raw = federation(kind, privacy={**MINIBATCH, "records": 200})

    async def play() -> None:
        log: list[Any] = []
        async with live_server(tmp_path / "served", raw) as on:
            result = await joined(on, tmp_path, kind, {"epsilon": 50.0, "delta": 1e-5}, log)
            assert result.last == 3 and on.service.durable.finished
        signed = next(facts for facts in log if facts["event"] == "signed")
        assert 0 < signed["epsilon"] < 50

    played(play)


@pytest.mark.slow
def test_without_a_copy_the_client_is_told_what_to_do(tmp_path: Path) -> None:
    kind = written(tmp_path)
    said = declined(tmp_path, federation(kind), None, OPEN)
    assert "a server sends no code" in said and "--model FILE.py:Mean" in said and ModelFile.read(kind).sha256 in said


@pytest.mark.slow
def test_a_copy_with_other_bytes_is_refused_and_not_run(tmp_path: Path) -> None:
    kind = written(tmp_path / "server")
    (tmp_path / "mean.py").write_text(f"open({str(tmp_path / 'was run')!r}, 'w')\n" + MODEL.format(more=""))
    other = f"{tmp_path / 'mean.py'}:Mean"
    said = declined(tmp_path, federation(kind), other, OPEN)
    assert ModelFile.read(kind).sha256 in said and ModelFile.read(other).sha256 in said
    assert not (tmp_path / "was run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("objectives", [["logistic"], ["other.py:Mean"], ["0" * 64]])
def test_a_policy_that_does_not_name_it_refuses_and_nothing_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, objectives: list[str]
) -> None:
    kind, policy = written(tmp_path), {**OPEN, "objectives": objectives}
    said = declined(tmp_path, federation(kind), kind, policy, lambda: monkeypatch.setenv("TEST_MODEL", "fails"))
    assert "mean.py:Mean" in said and "policy allows objectives" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("fails", "does not run on its machine; the client's own log says why"),
        ("wider", "has 5 numbers of float64"),
        ("elsewhere", "begins with a model of length"),
    ],
)
def test_the_same_file_that_turns_out_otherwise_here_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, says: str
) -> None:
    """What it imports may differ. The server hears nothing of what code said on a client's machine."""
    kind = written(tmp_path)
    said = declined(tmp_path, federation(kind), kind, OPEN, lambda: monkeypatch.setenv("TEST_MODEL", change))
    assert says in said and "secret" not in said and str(tmp_path) not in said


@pytest.mark.slow
def test_code_that_fails_in_a_round_ends_the_client_in_one_sentence_that_stays_with_it(tmp_path: Path) -> None:
    kind = written(tmp_path, more="+ (0 if self.seen < 60 else open('a secret of this machine'))")

    async def play() -> None:
        async with live_server(tmp_path / "served", federation(kind)) as on:
            with pytest.raises(ConfigError, match=r"Mean\.gradient failed with FileNotFoundError") as failed:
                await joined(on, tmp_path, kind, OPEN, [])
            assert "\n" not in str(failed.value) and "secret" not in str(on.log)

    played(play)


def test_a_copy_of_another_class_or_for_logistic_terms_is_refused(tmp_path: Path) -> None:
    kind = written(tmp_path)
    agreed = build_terms(terms_text(read(federation(kind))))
    with pytest.raises(Refused, match="--model names Other"):
        with_copy(agreed, ModelFile.read(kind.replace(":Mean", ":Other")))
    with pytest.raises(Refused, match=r"the terms train logistic, but --model names a copy of mean\.py:Mean"):
        with_copy(build_terms(terms_text(read(case()))), ModelFile.read(kind))


def test_code_that_keeps_something_between_calls_gets_no_epsilon(tmp_path: Path) -> None:
    kind = written(tmp_path, more="+ self.seen")
    for privacy, refused in ((MINIBATCH, True), ({"mechanism": "none"}, False)):
        config = read(federation(kind, privacy=privacy))
        agreed = build_terms(terms_text(config))
        if refused:
            with pytest.raises(Refused, match="once it has seen others"):
                with_copy(agreed, servers_copy(config.objective.kind))
        else:
            assert isinstance(with_copy(agreed, servers_copy(config.objective.kind)).objective, OwnModel)


def test_a_model_with_an_optimiser_of_its_own_is_refused_by_minibatch_and_not_by_batch_clip(tmp_path: Path) -> None:
    kind = written(tmp_path, more="\n    plain_steps = False")
    agreed, whole = (
        build_terms(terms_text(read(federation(kind, privacy={**MINIBATCH, "mechanism": name}))))
        for name in ("minibatch", "batch-clip")
    )
    with pytest.raises(Refused, match="has its own optimiser"):
        with_copy(agreed, servers_copy(kind))
    assert isinstance(with_copy(whole, servers_copy(kind)).objective, OwnModel)


def test_running_statistics_are_served_as_a_mean_and_without_privacy_or_refused(tmp_path: Path) -> None:
    kind = written(tmp_path, more="\n    running_layer = 'the layer 2 (BatchNorm1d)'")
    asked = federation(kind)
    asked["clients"] = {"count": 2, "weights": "uniform", "combine": "sum"}
    with pytest.raises(ConfigError, match=r'the layer 2 \(BatchNorm1d\) keeps .*use clients.combine = "mean"'):
        with_copy(build_terms(terms_text(read(asked))), servers_copy(kind))
    asked["clients"]["combine"] = "mean"
    assert isinstance(with_copy(build_terms(terms_text(read(asked))), servers_copy(kind)).objective, OwnModel)
    private = build_terms(terms_text(read(federation(kind, privacy={**MINIBATCH, "mechanism": "batch-clip"}))))
    with pytest.raises(Refused, match=r"the layer 2 \(BatchNorm1d\) of mean.py:Mean keeps .*; use GroupNorm"):
        with_copy(private, servers_copy(kind))


def test_the_local_mechanism_is_refused_with_its_reason(tmp_path: Path) -> None:
    raw = federation(written(tmp_path), privacy={**MINIBATCH, "mechanism": "local"})
    with pytest.raises(Refused, match="Mean does not say that it is one; minibatch is certified for any model"):
        terms_text(read(raw))


def test_a_server_whose_file_changed_does_not_go_on(tmp_path: Path) -> None:
    config = read(federation(written(tmp_path)))
    agreed = build_terms(terms_text(config))
    written(tmp_path, more="* 1.0")
    with pytest.raises(Refused, match="the file that the terms were made with"):
        with_copy(agreed, servers_copy(config.objective.kind))


def test_terms_are_understood_without_the_code(tmp_path: Path) -> None:
    """As an aggregator does."""
    config = read(federation(written(tmp_path), privacy=MINIBATCH))
    text = terms_text(config)
    complete = with_copy(build_terms(text), servers_copy(config.objective.kind))
    (tmp_path / "mean.py").unlink()
    agreed = build_terms(text)
    assert agreed.objective.size == complete.objective.size == 4
    assert agreed.terms == complete.terms and agreed.plan(0) == complete.plan(0)
    with pytest.raises(CrescendoError, match="only described here"):
        agreed.initial()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"data": {"classes": None}}, "data.classes is missing"),
        ({"objective": {"l2": 0.1}}, "are for logistic"),
        ({"objective": {"options": {"scale": [1.0, float("inf")]}}}, r"options\.scale cannot be part of terms"),
        ({"objective": {"options": {"scales": 1.0}}}, "Mean takes no scales; .*made-up records"),
        ({"objective": {"kind": "none.py:Mean"}}, "none.py, which does not exist"),
        ({"schedule": {"blocks": 99}}, "at most the model's 4 numbers"),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_sentence(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    raw = federation(written(tmp_path))
    raw = {name: {**values, **changes.get(name, {})} for name, values in raw.items()}
    raw = {name: {k: v for k, v in values.items() if v is not None} for name, values in raw.items()}
    with pytest.raises(ConfigError, match=reason):
        terms_text(read(raw))


@pytest.mark.slow
def test_a_client_with_few_of_the_labels_numbers_them_as_everybody_does(tmp_path: Path) -> None:
    agreed = build_terms(terms_text(read(own(privacy=MINIBATCH))))
    np.savez(tmp_path / "mine.npz", x=np.ones((4, 64)), y=np.array([7, 3, 7, 11]))
    assert RecordSource(str(tmp_path / "mine.npz")).read(agreed, 0).records.y.tolist() == [7.0, 3.0, 7.0]


TEXT = terms_text(read(own()))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_a_server_writes_about_a_model_is_terms_or_one_sentence(data: st.DataObject) -> None:
    raw, numbers = json.loads(TEXT), st.one_of(st.integers(-(2**70), 2**70), st.floats())
    junk = st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=5), st.lists(st.integers(0, 3), max_size=3))
    raw["objective"][data.draw(st.sampled_from(sorted(raw["objective"])))] = data.draw(junk)
    try:
        agreed = build_terms(json.dumps(raw, sort_keys=True, separators=(",", ":")))
        with_copy(agreed, ModelFile.read(OWN_MODEL))
    except CrescendoError as error:
        assert "\n" not in str(error)
