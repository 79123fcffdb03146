"""A client's own records: a wrong label column is found, or at least seen, by the client itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.data.sound import Sound
from crescendo.errors import DataError, UsageError
from crescendo.federation.agreement import Agreement, build_terms
from crescendo.federation.own_records import RecordSource
from crescendo.federation.policy import Policy
from crescendo.network.client.join import join
from crescendo.network.transport.channels import Endpoint
from crescendo.network.transport.retry import Backoff
from tests.cli.joining_clients import ONE, OPEN, played
from tests.conformance.cases import PRIVATE
from tests.network.live_server import live_server

AGREED_CLASSES: dict[str, Any] = {**ONE, "data": {"source": "with the clients", "classes": [0, 1]}}
MINIBATCH: dict[str, Any] = {"mechanism": "minibatch", **PRIVATE, "records": 200}


def agreed(**changes: Any) -> Agreement:
    return build_terms(terms_text(read({**AGREED_CLASSES, **changes})))


def table(folder: Path, records: int = 12) -> Path:
    """``late`` is the label; ``hour`` is 0 or 1 in a third of the records, and ``year`` never."""
    lines = [f"{i % 6},0.5,0.25,{2 + i % 5},{i % 2}" for i in range(records)]
    path = folder / "mine.csv"
    path.write_text("\n".join(["hour,a,b,year,late", *lines]))
    return path


def told(own: Sound, source: RecordSource) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    source.tell(own, lambda event, **facts: lines.append({"event": event, **facts}))
    return lines


def test_the_label_that_was_agreed_on_leaves_nothing_out(tmp_path: Path) -> None:
    source = RecordSource(str(table(tmp_path)), label="late")
    assert told(source.read(agreed(), 0), source) == [
        {"event": "records", "used": 12, "left_out": 0, "unreadable": 0, "other_label": 0, "not_finite": 0}
    ]


def test_a_wrong_label_column_that_drops_most_records_is_warned_of(tmp_path: Path) -> None:
    source = RecordSource(str(table(tmp_path)), label="hour")
    counted, warned = told(source.read(agreed(), 0), source)
    assert counted == {"event": "records", "used": 4, "left_out": 8, "unreadable": 0, "other_label": 8, "not_finite": 0}
    assert warned["event"] == "most_left_out"
    assert "8 of 12 records are left out" in warned["says"] and "the column 'hour'" in warned["says"]


def test_a_wrong_label_column_that_drops_all_records_is_refused(tmp_path: Path) -> None:
    source = RecordSource(str(table(tmp_path)), label="year")
    with pytest.raises(DataError, match=r"none of the 12 records .* agreed classes 0, 1; .* the column 'year'"):
        source.read(agreed(), 0)


@pytest.mark.parametrize("name", ["mine.csv", "mine.csv.gz"])
def test_a_mistyped_column_is_found_in_the_header_line(name: str, tmp_path: Path) -> None:
    import gzip

    plain = table(tmp_path).read_bytes()
    (tmp_path / name).write_bytes(gzip.compress(plain) if name.endswith(".gz") else plain)
    with pytest.raises(
        UsageError, match=r"--label asks for the column 'lat', but the columns of .* hour, a, b, year, late"
    ):
        RecordSource(str(tmp_path / name), label="lat").check()
    with pytest.raises(UsageError, match="--part asks for the column 'airline'"):
        RecordSource(str(tmp_path / name), part="column:airline").check()
    RecordSource(str(tmp_path / name), label="late", part="column:hour").check()


def test_only_a_csv_has_a_label_column() -> None:
    with pytest.raises(UsageError, match="which wine is not; leave --label out"):
        RecordSource("wine", label="late").check()


def test_a_damaged_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "mine.csv.gz").write_bytes(b"no gzip at all")
    with pytest.raises(DataError, match="damaged"):
        RecordSource(str(tmp_path / "mine.csv.gz")).check()
    (tmp_path / "mine.csv").write_bytes(b"\xff,b\n")
    with pytest.raises(DataError, match="not UTF-8"):
        RecordSource(str(tmp_path / "mine.csv")).check()


def test_a_client_counts_its_records_in_its_own_log_and_nowhere_else(tmp_path: Path) -> None:
    async def play() -> None:
        log: list[dict[str, Any]] = []
        async with live_server(tmp_path / "served", AGREED_CLASSES) as on:
            await asyncio.to_thread(
                join,
                Endpoint(f"127.0.0.1:{on.port}"),
                "client 0",
                RecordSource(str(table(tmp_path, 60)), label="late"),
                tmp_path / "client",
                Policy.model_validate(OPEN),
                log=lambda event, **facts: log.append({"event": event, **facts}),
                backoff=Backoff(0.02, 0.2),
            )
            assert [line["event"] for line in log][:3] == ["signed", "records", "joined"]
            assert log[1]["used"] == 60 and "60" not in str(on.log)

    played(play)


def test_a_mistyped_label_leaves_no_state_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--label asks for"):
        join(
            Endpoint("127.0.0.1:1"),
            "client 0",
            RecordSource(str(table(tmp_path)), label="lat"),
            tmp_path / "client",
            Policy.model_validate(OPEN),
        )
    assert not (tmp_path / "client").exists()


def test_what_load_leaves_out_is_counted() -> None:
    from crescendo.data import load

    whole, some = load("digits", test=0.0), load("digits", test=0.0, classes=(3, 8))
    assert some.left_out == len(whole.train) - len(some.train) > 0
    assert np.isin(some.train.y, (0.0, 1.0)).all() and whole.left_out == 0
