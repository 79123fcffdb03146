"""A private client and its file: a file of another shape is refused before anything is signed, a bad record refuses nothing."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crescendo.cli.show.show_run import RunPrinter
from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.errors import ConfigError, DataError, Refused
from crescendo.federation.agreement import build_terms
from crescendo.federation.own_records import RecordSource
from crescendo.federation.policy import Policy
from crescendo.network.client.join import CANNOT, Joined, join
from crescendo.network.transport.channels import Endpoint
from crescendo.network.transport.retry import Backoff
from crescendo.privacy.mechanisms.admission import enough_declared, most_records
from crescendo.runs.simulate import simulate
from crescendo.storage.ledger.open_ledger import open_ledger
from tests.cli.joining_clients import played
from tests.config.small import SMALL
from tests.conformance.cases import PRIVATE, case
from tests.network.live_server import LiveServer, live_server
from tests.runs.private_terms import agreed

HEADER = "a,b,c,late\n"
GOOD = "".join(f"{i % 7},0.5,-1,{i % 2}\n" for i in range(60))
BAD = 'x,1,1,0\n1,1,1,\n1,1,1,7\nnan,1,1,1\n1,1\n1,1,1,1,1\n"1,1,1,1\n1,1e999,1,1\n'
SERVED: dict[str, Any] = case(
    clients={"count": 1},
    data={"source": "with the clients", "classes": [0, 1]},
    schedule={"rounds": 3, "sizes": {"kind": "constant", "size": 20}},
    serve={"features": 3},
    privacy={"mechanism": "minibatch", **PRIVATE},
)
ALLOWED: dict[str, Any] = {"epsilon": 20.0, "delta": 1e-5}


async def joined(on: LiveServer, folder: Path, data: Path, log: list[dict[str, Any]]) -> Joined:
    return await asyncio.to_thread(
        join,
        Endpoint(f"127.0.0.1:{on.port}"),
        "client 0",
        RecordSource(str(data)),
        folder / "client",
        Policy.model_validate(ALLOWED),
        log=lambda event, **facts: log.append({"event": event, **facts}),
        backoff=Backoff(0.02, 0.2),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "counted"),
    [
        (HEADER + GOOD + BAD, {"used": 60, "left_out": 8, "unreadable": 5, "other_label": 1, "not_finite": 2}),
        (HEADER + BAD, {"used": 0, "left_out": 8, "unreadable": 5, "other_label": 1, "not_finite": 2}),
        (HEADER, {"used": 0, "left_out": 0, "unreadable": 0, "other_label": 0, "not_finite": 0}),
    ],
    ids=["some", "all", "none"],
)
def test_bad_records_are_counted_by_their_owner_and_the_client_goes_on(
    tmp_path: Path, content: str, counted: dict[str, int]
) -> None:
    (tmp_path / "mine.csv").write_text(content)

    async def play() -> None:
        async with live_server(tmp_path / "served", SERVED) as on:
            log: list[dict[str, Any]] = []
            result = await joined(on, tmp_path, tmp_path / "mine.csv", log)
            assert result.last == 2 and np.isfinite(result.model).all() and on.service.durable.finished
            (line,) = [line for line in log if line["event"] == "records"]
            assert line == {"event": "records", **counted}
            assert ("most_left_out" in [line["event"] for line in log]) == (counted["left_out"] > counted["used"])
            assert "left_out" not in str(on.log)

    played(play)


@pytest.mark.slow
def test_a_file_of_another_shape_costs_nothing_and_the_server_hears_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a,b,late\n1,2,0\n")

    async def play() -> None:
        async with live_server(tmp_path / "served", SERVED) as on:
            log: list[dict[str, Any]] = []
            with pytest.raises(DataError, match=r"secret\.csv has 2 features, but the terms state 3"):
                await joined(on, tmp_path, tmp_path / "secret.csv", log)
            assert [line["event"] for line in log] == ["accounting", "declined"] and "secret.csv" in log[-1]["reason"]
            assert [facts["reason"] for facts in on.events("declined")] == [CANNOT] and "secret" not in str(on.log)
            with open_ledger(tmp_path / "client" / "ledger.sqlite", read_only=True) as ledger:
                assert ledger.account(SERVED["serve"]["federation"]) is None  # nothing was promised
            (tmp_path / "secret.csv").write_text(HEADER + GOOD)
            assert (await joined(on, tmp_path, tmp_path / "secret.csv", log)).last == 2

    played(play)


PACKED = gzip.compress((HEADER + GOOD).encode(), mtime=0)  # the same in every process that collects the tests


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("mine.csv", b"", "has no records; it needs a header line"),
        ("mine.csv", b"1,2,3,0\n" * 9, "no header line"),
        ("mine.csv", b"a,b,late\n1,2,0\n", "2 features, but the terms state 3"),
        ("mine.csv", b"a,b,c,d,late\n", "4 features, but the terms state 3"),
        ("mine.csv", b"\x89PNG\r\n\x1a\n" + bytes(99), "not UTF-8"),
        ("mine.csv", b"a," * 600_000, "first line of more than 1048575 bytes"),
        ("mine.csv.gz", PACKED[:-9], "cut short or damaged"),
        ("mine.txt.gz", b"1 1:1\n", "cut short or damaged"),
        ("mine.npz", b"PK\x03\x04", "mine.npz"),
        ("mine.CSV", b"1 1:1\n", "one column"),
        ("photo.jpg", b"\xff\xd8\xff", "data files are LIBSVM text"),
        ("train-images-idx3-ubyte", b"1", "no labels beside it"),
        (
            "mine.csv",
            (HEADER + GOOD * 9).encode(),
            "540 records, but terms that declare 300 for this client allow at most 512",
        ),
        ("mine.txt", b"what\n" * 513, "513 records"),
    ],
)
def test_a_file_that_is_no_such_table_is_refused_before_it_is_signed_for(
    tmp_path: Path, name: str, content: bytes, says: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as error:
        RecordSource(str(tmp_path / name)).read(agreed(), 0)
    assert says in str(error.value) and str(error.value).isprintable()


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"x": np.zeros((9, 2)), "y": np.zeros(9)}, "2 features"),
        ({"x": np.zeros((9, 3)), "y": np.zeros(8)}, "one row and one label each"),
        ({"x": np.zeros((9, 3)).astype(str), "y": np.zeros(9)}, "numbers"),
        ({"x": np.zeros((9, 3)), "y": np.zeros(9, dtype=complex)}, "numbers or texts"),
        ({"x": np.zeros((513, 3)), "y": np.zeros(513)}, "513 records"),
    ],
)
def test_arrays_of_another_shape_are_refused(tmp_path: Path, arrays: dict[str, Any], says: str) -> None:
    np.savez(tmp_path / "mine.npz", **arrays)
    with pytest.raises(DataError, match=says):
        RecordSource(str(tmp_path / "mine.npz")).read(agreed(), 0)


def test_as_many_records_as_are_covered_are_taken_whatever_they_hold(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text(HEADER + GOOD * 8 + "x,1,1,0\n" * 32)
    own = RecordSource(str(tmp_path / "mine.csv")).read(agreed(), 0)
    assert (len(own.records), own.unreadable) == (480, 32)


@given(st.integers(1, 2**40), st.integers(1, 2**40))
def test_what_offers_can_find_out_is_how_many_digits_the_number_of_records_has(declared: int, records: int) -> None:
    assert declared <= most_records(declared) <= 2 * declared
    fewest, most = (1 << (records - 1).bit_length()) // 2 + 1, 1 << (records - 1).bit_length()
    assert (fewest <= most_records(declared)) == (records <= most_records(declared)) == (most <= most_records(declared))
    enough = enough_declared(records)
    assert most_records(enough) >= records and (enough == 1 or most_records(enough - 1) < records)


def test_an_empty_npz_is_a_table_without_records(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", x=np.zeros((0, 3)), y=np.zeros(0))
    assert RecordSource(str(tmp_path / "mine.npz")).read(agreed(), 0).records.x.shape == (0, 3)


def test_a_test_part_beside_a_clients_file_is_none_of_its_business(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("1 1:1\n")
    (tmp_path / "mine.t").write_text("no record\n")
    assert len(RecordSource(str(tmp_path / "mine")).read(agreed(), 0).records) == 1


def test_a_private_client_has_its_own_file_and_no_part_of_one(tmp_path: Path) -> None:
    (tmp_path / "all.csv").write_text(HEADER + GOOD)
    with pytest.raises(DataError, match="must hold only this client's own records"):
        RecordSource(str(tmp_path / "all.csv"), part="iid").read(agreed(), 0)


def test_private_terms_without_classes_are_neither_written_nor_taken() -> None:
    raw = {**SERVED, "data": {"source": "with the clients"}}
    with pytest.raises(ConfigError, match=r"data\.classes is missing; in a private run"):
        terms_text(read(raw))
    text = agreed().text.replace('"classes":[0,1]', '"classes":null')
    assert text != agreed().text
    with pytest.raises(Refused, match="name no classes"):
        build_terms(text)


@pytest.mark.parametrize(
    ("classes", "says"),
    [
        ("[1,0]", "rising order"),
        ("[0,0]", "at least two"),
        ("[0,1,2]", "two classes apart"),
        ('[0,"1"]', "rising order"),
        ("[[],0]", "list of labels"),
        ("{}", "rising order"),
        ('"01"', "rising order"),
        ("7", "rising order"),
    ],
)
def test_classes_that_a_server_makes_up_are_refused_in_one_sentence(classes: str, says: str) -> None:
    with pytest.raises((Refused, ConfigError), match=says):
        build_terms(agreed().text.replace('"classes":[0,1]', f'"classes":{classes}'))


# Simulated


def private_run(path: Path, **data: Any) -> dict[str, Any]:
    privacy = {"mechanism": "minibatch", "delta": 1e-5, "sigma": 2.0, "clip": 1.0, "records": 40, "norm_bound": 4.0}
    return {**SMALL, "data": {"source": str(path), "test": 0.0, **data}, "privacy": privacy}


def test_a_private_simulation_of_a_file_states_its_classes(tmp_path: Path) -> None:
    (tmp_path / "all.csv").write_text(HEADER + GOOD)
    with pytest.raises(ConfigError, match=r"data\.classes is missing; in a private run"):
        simulate(private_run(tmp_path / "all.csv"))
    assert simulate(private_run(tmp_path / "all.csv", classes=[0, 1])).privacy is not None


def test_a_private_simulation_leaves_bad_records_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "good.csv").write_text(HEADER + GOOD)
    (tmp_path / "all.csv").write_text(HEADER + BAD + GOOD + BAD)
    good, found = (simulate(private_run(tmp_path / name, classes=[0, 1])) for name in ("good.csv", "all.csv"))
    assert found.prepared.dataset.left_out == 16
    np.testing.assert_array_equal(good.model, found.model)
    RunPrinter().result(found)
    assert "16 are left out" in " ".join(capsys.readouterr().out.split())


def test_a_simulated_client_with_more_than_twice_what_it_declares_is_refused(tmp_path: Path) -> None:
    (tmp_path / "all.csv").write_text(HEADER + GOOD * 3)
    with pytest.raises(ConfigError, match=r"client 0 has 90 records, .* with 64 at most; set privacy.records to 64"):
        simulate(private_run(tmp_path / "all.csv", classes=[0, 1]))


MODEL = """
import numpy as np

class Picky:
    def __init__(self, features):
        self.features = features
    def initial(self, rng):
        return np.zeros(self.features)
    def gradient(self, w, data, rows):
        if (data.x[rows] == 99).any() and len(data) > 3:
            raise ValueError("a record decides")
        return data.x[rows].sum(axis=0)
    def evaluate(self, w, data):
        return {"loss": 0.0}
"""


def test_no_record_decides_whether_a_private_model_is_made(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(MODEL)
    (tmp_path / "all.csv").write_text(HEADER + "99,99,99,0\n" * 2 + GOOD)
    run = private_run(tmp_path / "all.csv", classes=[0, 1])
    from crescendo.runs.prepare import prepare

    own = {**run, "objective": {"kind": f"{tmp_path / 'own.py'}:Picky"}}
    assert prepare(read(own)).objective.size == 3
    with pytest.raises(ConfigError, match="a record decides"):
        prepare(read({**own, "privacy": {"mechanism": "none"}}))
