"""`join --test`: held-out records train nothing, a rule on each alone picks them, and what they measure stays with the client."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.data.held_out import held_out
from crescendo.data.records import Records, as_records
from crescendo.errors import CrescendoError, DataError
from crescendo.federation.agreement import Agreement, build_terms
from crescendo.federation.own_records import RecordSource
from crescendo.federation.policy import Policy
from crescendo.network.client import client_session
from crescendo.network.client import join as joining
from crescendo.network.client.join import Joined, join
from crescendo.network.server.serve import Listening, Served
from crescendo.network.transport.channels import Endpoint
from crescendo.network.transport.retry import Backoff
from crescendo.objectives.score import Measured
from crescendo.runs.serving import serve_file
from tests.cli.joining_clients import ONE, nowhere, played
from tests.conformance.cases import PRIVATE
from tests.network.live_server import live_server

CLASSES: dict[str, Any] = {**ONE, "data": {"source": "with the clients", "classes": [0, 1]}}
MINIBATCH: dict[str, Any] = {"mechanism": "minibatch", **PRIVATE, "records": 200}


def agreed(**changes: Any) -> Agreement:
    return build_terms(terms_text(read({**CLASSES, **changes})))


def records(rows: int = 400, seed: int = 0) -> Records:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 4))
    return Records(x, (x[:, 0] > 0).astype(np.float64))


def table(folder: Path, found: Records) -> Path:
    path = folder / "mine.csv"
    lines = [
        ",".join(f"{value:.17g}" for value in row) + f",{int(label)}"
        for row, label in zip(found.x, found.y, strict=True)
    ]
    path.write_text("\n".join(["a,b,c,d,y", *lines]) + "\n")
    return path


def test_one_record_more_or_less_moves_no_other() -> None:
    some = records()
    apart = held_out(some, 0.25)
    assert 60 < apart.sum() < 140
    for gone in range(0, 400, 37):
        rest = np.delete(np.arange(400), gone)
        assert (held_out(some.take(rest), 0.25) == apart[rest]).all()
    order = np.random.default_rng(1).permutation(400)
    assert (held_out(some.take(order), 0.25) == apart[order]).all()
    assert (held_out(some, 0.1) <= apart).all()  # a larger share holds out more, and no others


def test_equal_records_stay_on_one_side_in_every_layout() -> None:
    x = np.where(np.random.default_rng(0).random((200, 5)) < 0.5, 0.0, 1.5)
    dense, signed = Records(x, np.zeros(200)), Records(np.where(x == 0, -0.0, x), np.zeros(200))
    apart = held_out(dense, 0.3)
    assert (held_out(signed, 0.3) == apart).all()
    sides: dict[bytes, bool] = {}
    for row, side in zip(x, apart, strict=True):
        assert sides.setdefault(row.tobytes(), side) == side
    sparse = as_records(csr_array(x), np.zeros(200))
    stored = csr_array((x.ravel(), np.tile(np.arange(5), 200), np.arange(0, 1001, 5)), shape=(200, 5))
    assert (
        held_out(sparse, 0.3) == held_out(as_records(stored, np.zeros(200)), 0.3)
    ).all()  # zeros that are written out


@pytest.mark.parametrize("private", [False, True])
def test_held_out_records_train_nothing(tmp_path: Path, private: bool) -> None:
    whole = records()
    terms = agreed(privacy={**MINIBATCH, "records": 400}) if private else agreed()
    found = RecordSource(str(table(tmp_path, whole)), test=0.25).read(terms, 0)
    assert found.held_out is not None
    trained, tested = ({row.tobytes() for row in part.x} for part in (found.records, found.held_out))
    assert not trained & tested and len(trained) + len(tested) == 400 and 60 < len(tested) < 140
    again = RecordSource(str(table(tmp_path, whole)), test=0.25).read(terms, 0)
    assert again.records.fingerprint() == found.records.fingerprint()


def test_what_is_declared_is_held_against_the_records_that_train(tmp_path: Path) -> None:
    terms = agreed(privacy={**MINIBATCH, "records": 150})  # which allow 256
    path = table(tmp_path, records(400))
    with pytest.raises(DataError, match="has 400 records, but terms that declare 150"):
        RecordSource(str(path)).read(terms, 0)
    assert 150 < len(RecordSource(str(path), test=0.5).read(terms, 0).records) < 256


def test_a_share_that_leaves_nothing_is_refused_where_nothing_is_private(tmp_path: Path) -> None:
    path = table(tmp_path, records(3))
    with pytest.raises(DataError, match="holds out all the records"):
        RecordSource(str(path), test=0.999999).read(agreed(), 0)
    assert len(RecordSource(str(path), test=0.999999).read(agreed(privacy=MINIBATCH), 0).records) == 0


def test_a_part_of_a_trial_is_measured_on_the_test_part_of_the_simulation() -> None:
    terms = build_terms(terms_text(read({**CLASSES, "serve": {**CLASSES["serve"], "features": 30}})))
    found = RecordSource("breast_cancer", part="iid", test=0.2).read(terms, 0)
    assert found.held_out is not None and (len(found.records), len(found.held_out)) == (455, 114)


async def joins(port: int, folder: Path, test: float, log: list[dict[str, Any]], **policy: Any) -> Joined:
    return await asyncio.to_thread(
        join,
        Endpoint(f"127.0.0.1:{port}"),
        "client 0",
        RecordSource(str(folder / "mine.csv"), test=test),
        folder / "client",
        Policy.model_validate(policy or {"mechanisms": ["none"]}),
        log=lambda event, **facts: log.append({"event": event, **facts}),
        backoff=Backoff(0.02, 0.2, give_up=20.0),
    )


@pytest.mark.slow
@pytest.mark.parametrize("private", [False, True])
def test_the_last_model_is_measured_here_after_the_last_word_with_the_server(
    tmp_path: Path, private: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = {**CLASSES, **({"privacy": {**MINIBATCH, "records": 400}} if private else {})}
    budget = {"dataset": "d", "epsilon": 100.0, "delta": 1e-5, "mechanisms": ["minibatch"]} if private else {}
    whole, log, order = records(), list[dict[str, Any]](), list[str]()
    table(tmp_path, whole)
    talk, measure = client_session.take_part, Measured.of

    async def talked(*args: Any, **more: Any) -> Any:
        order.append("talk")
        try:
            return await talk(*args, **more)
        finally:
            order.append("last word")

    def measured(*args: Any) -> Any:
        order.append("measured")
        return measure(*args)

    monkeypatch.setattr(joining, "take_part", talked)
    monkeypatch.setattr(Measured, "of", measured)

    async def play() -> Joined:
        async with live_server(tmp_path / "served" / "journal", raw) as made:
            return await joins(made.port, tmp_path, 0.25, log, **budget)

    ended: list[Joined] = []

    async def all_of_it() -> None:
        ended.append(await play())

    played(all_of_it)
    (joined,) = ended
    assert order == ["talk", "last word", "measured"]
    apart = whole.take(np.flatnonzero(held_out(whole, 0.25)))
    assert joined.score is not None
    assert joined.score.plain() == (measure(agreed().objective, joined.model, apart) or joined.score).plain()
    assert joined.score.records == len(apart) and (private or joined.score.scores["accuracy"] > 0.7)
    kept = json.loads((tmp_path / "client" / "test.json").read_text())
    assert kept["score"] == joined.score.plain() and kept["share"] == 0.25
    assert (tmp_path / "client" / "test.json").stat().st_mode & 0o077 == 0
    events = [line["event"] for line in log]
    assert events.index("held_out") < events.index("measured") and events.index("finished") < events.index("measured")
    told = b"".join(path.read_bytes() for path in (tmp_path / "served").rglob("*") if path.is_file())
    assert b"accuracy" not in told and b"test.json" not in told

    async def without_a_server() -> None:
        again = await asyncio.to_thread(
            join,
            nowhere(),
            "client 0",
            RecordSource(str(tmp_path / "mine.csv"), test=0.25),
            tmp_path / "client",
            Policy.model_validate(budget or {"mechanisms": ["none"]}),
            backoff=Backoff(0.01, 0.05),
        )
        assert again.score is not None and again.score.plain() == kept["score"]

    played(without_a_server)


@pytest.mark.slow
def test_another_share_in_the_middle_of_a_run_is_refused(tmp_path: Path) -> None:
    table(tmp_path, records())

    async def play() -> None:
        async with live_server(tmp_path / "served" / "journal", CLASSES) as made:
            await joins(made.port, tmp_path, 0.25, [])
            (tmp_path / "client" / "model.npz").unlink()
            for share, says in ((0.5, "began with --test 0.25"), (0.0, "began with --test 0.25")):
                with pytest.raises(CrescendoError, match=says):
                    await joins(made.port, tmp_path, share, [])
            (tmp_path / "client" / "test.json").unlink()
            with pytest.raises(CrescendoError, match="began with no --test"):
                await joins(made.port, tmp_path, 0.25, [])

    played(play)


def test_a_model_that_fails_to_be_measured_ends_nothing(tmp_path: Path) -> None:
    from crescendo.network.client.local_test import LocalTest

    log: list[dict[str, Any]] = []
    test = LocalTest(tmp_path / "test.json", 0.2)

    def note(event: str, **facts: Any) -> None:
        log.append({"event": event, **facts})

    assert test.measure(agreed(), np.zeros(3), records(), note) is None  # a model of another size: whatever is raised
    assert test.measure(agreed(), np.zeros(5), records().take(np.arange(0)), note) is None
    assert [line["event"] for line in log] == ["not_measured"] * 2 and "no record is held out" in log[1]["reason"]
    (tmp_path / "test.json").write_text("[" * 10_000)
    assert test.found("f", "t") is None


@pytest.mark.slow
def test_a_server_measures_its_last_model_on_the_public_set_that_its_run_file_names(tmp_path: Path) -> None:
    """No client's records are looked at; a set that does not fit the terms is refused before anything is served."""
    table(tmp_path, records())
    lines: list[dict[str, Any]] = []

    def note(event: str, **facts: Any) -> None:
        lines.append({"event": event, **facts})

    async def play() -> None:
        async with live_server(tmp_path / "served" / "journal", CLASSES) as made:
            await joins(made.port, tmp_path, 0.0, [])

    played(play)

    def again(test: Path | str) -> Served:
        config = read({**CLASSES, "serve": {**CLASSES["serve"], "test": str(test)}})
        return serve_file(config, Listening("127.0.0.1:0"), tmp_path / "served", linger=0.0, log=note)

    async def on_a_thread(test: Path | str) -> Served:
        return await asyncio.to_thread(again, test)

    (tmp_path / "public").mkdir()
    served = asyncio.run(on_a_thread(table(tmp_path / "public", records(50, seed=9))))
    assert served.score is not None and served.score.records == 50 and served.score.scores["accuracy"] > 0.7
    assert [line["of"] for line in lines if line["event"] == "measured"] == ["public set"]
    for test, says in (
        ("nothing.csv", "serve.test: there is no file|serve.test: there is no data"),
        ("wine", "serve.test: wine has 13 features"),
    ):
        with pytest.raises(CrescendoError, match=says):
            asyncio.run(on_a_thread(test))
