"""A schema in the terms: old terms stay as they were, hostile ones are refused, other dialects give the same."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.errors import ConfigError, CrescendoError, DataError, Refused
from crescendo.federation.agreement import Agreement, build_terms, canonical
from crescendo.federation.own_records import RecordSource
from crescendo.federation.policy import Policy
from crescendo.network.client.join import join
from crescendo.network.transport.channels import Endpoint
from crescendo.network.transport.retry import Backoff
from tests.cli.joining_clients import played
from tests.conformance.cases import PRIVATE, case
from tests.network.live_server import live_server

SCHEMA: dict[str, Any] = {
    "label": "died",
    "columns": {
        "age": {"low": 0.0, "high": 100.0, "missing": 50.0, "indicator": True},
        "bmi": {"low": 10.0, "high": 50.0},
        "city": {"values": ["Oslo", "Zürich"], "other": True},
    },
}
SERVED = case(
    clients={"count": 2, "combine": "mean"},
    data={"source": "with the clients", "classes": ["no", "yes"], "schema": SCHEMA},
    serve={"federation": "messy", "features": None},
    schedule={"rounds": 3},
    privacy={"mechanism": "minibatch", **PRIVATE, "records": 100},
)
SERVED["serve"].pop("features")
ENGLISH = """,patient_id,age,bmi,city,visited,died
0,17,41.5,22.25,Oslo,2024-01-01,yes
1,18,,31.5,Zürich,2024-01-01,no
2,19,130,12,Rome,2024-01-01,no
3,20,33,n/a,Oslo,2024-01-01,yes
4,21,33,20,Oslo,2024-01-01,perhaps
5,22,33,20,"Oslo,2024-01-01,yes
"""
GERMAN = """died;city;age;bmi;note\r
yes;Oslo;41,5;22,25;one\r
no;Zu\u0308rich;?;31,5;"two; and more"\r
no;Rome;1,3e2;12;\r
"""
ROWS: list[tuple[float | None, float, str, float]] = [
    (41.5, 22.25, "Oslo", 1.0),
    (None, 31.5, "Zürich", 0.0),
    (100.0, 12.0, "Rome", 0.0),
]


def agreed(**changes: Any) -> Agreement:
    return build_terms(terms_text(read({**SERVED, **changes})))


def expected() -> list[list[float]]:
    """The features of `ROWS` by hand: age, age is missing, bmi, city = Oslo, city = Zürich, city is other; and the label."""
    found = []
    for age, bmi, city, label in ROWS:
        known = [float(city == "Oslo"), float(city == "Zürich"), float(city == "Rome")]
        years = 50.0 if age is None else age
        found.append([years / 50 - 1, float(age is None), (bmi - 10) / 20 - 1, *known, label])
    return found


def written(folder: Path, name: str, text: str) -> RecordSource:
    (folder / name).write_bytes(text.encode())
    return RecordSource(str(folder / name))


def test_a_schema_is_part_of_the_terms_and_says_how_many_features_there_are() -> None:
    made = agreed()
    assert made.schema is not None and made.schema.plain() == SCHEMA and made.features == 6
    assert json.loads(made.text)["schema"] == SCHEMA
    wider = {**SCHEMA, "columns": {**SCHEMA["columns"], "age": {**SCHEMA["columns"]["age"], "high": 101.0}}}
    assert agreed(data={**SERVED["data"], "schema": wider}).digest != made.digest


def test_terms_without_a_schema_have_no_word_of_it() -> None:
    assert "schema" not in json.loads(terms_text(read(case())))


def test_features_that_the_schema_does_not_make_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"serve\.features = 5, and data\.schema makes 6"):
        agreed(serve={**SERVED["serve"], "features": 5})
    raw = json.loads(agreed().text)
    raw["objective"]["features"] = 5
    with pytest.raises(Refused, match="the terms state 5 features, but their schema makes 6"):
        build_terms(canonical(raw))


@pytest.mark.parametrize(
    "change",
    [
        {"columns": {}},
        {"columns": {"a": {"low": 0.0, "high": 0.0}}},
        {"columns": {"a": {"low": -1.7e308, "high": 1.7e308}}},
        {"columns": {"a": {"high": 5e-324, "low": 0.0}}},
        {"columns": {"a": {"high": 1.0, "low": 0.0, "indicator": False}}},  # not in canonical form
        {"columns": {"a\u202e": {"high": 1.0, "low": 0.0}}},
        {"columns": {"e\u0301": {"high": 1.0, "low": 0.0}}},
        {"columns": {"a": {"values": ["x"] * 3}}},
        {"columns": {"a": {"values": [str(k) for k in range(100_000)]}}},
        {"columns": {f"c{k}": {"high": 1.0, "low": 0.0} for k in range(30_000)}},
        {"columns": [1]},
        [],
        3,
    ],
)
def test_a_hostile_schema_is_refused_in_one_sentence(change: Any) -> None:
    raw = {**json.loads(agreed().text), "schema": change}
    named = change.get("columns") if isinstance(change, dict) else None
    wide = [len(one.get("values", [0])) for one in named.values()] if isinstance(named, dict) else []
    raw["objective"]["features"] = max(1, sum(wide))  # as many as it makes, so that nothing but the schema is wrong
    with pytest.raises(CrescendoError) as error:
        build_terms(canonical(raw))
    said = str(error.value)
    assert said.isprintable() and len(said) < 900 and "cannot be used" not in said


def test_files_of_other_dialects_give_the_same_records(tmp_path: Path) -> None:
    one, two = (
        written(tmp_path, name, text).read(agreed(), 0) for name, text in (("en.csv", ENGLISH), ("de.csv", GERMAN))
    )
    want = expected()
    for own in (one, two):
        found = np.column_stack([np.asarray(own.records.x), own.records.y])
        np.testing.assert_allclose(found, want, atol=1e-12)
    assert (one.unreadable, one.other_label) == (
        2,
        1,
    ) and two.left_out == 0  # no bmi, an open quotation mark; "perhaps"


def test_a_file_that_lacks_a_column_is_told_to_its_owner_only(tmp_path: Path) -> None:
    source = written(tmp_path, "a.csv", "age,city,died\n1,Oslo,yes\n")
    with pytest.raises(DataError, match="has no column 'bmi', which the schema names") as error:
        source.read(agreed(), 0)
    assert error.value.public is None
    with pytest.raises(DataError, match="the label is the column 'died', as the schema says"):
        RecordSource(written(tmp_path, "en.csv", ENGLISH).name, label="city").read(agreed(), 0)
    np.savez(tmp_path / "a.npz", x=np.zeros((2, 6)), y=np.array([0, 1]))
    with pytest.raises(DataError, match="about the columns of a table"):
        RecordSource(str(tmp_path / "a.npz")).read(agreed(), 0)


def test_what_a_schema_was_not_made_for_is_in_the_clients_own_log(tmp_path: Path) -> None:
    lines = "".join(f"{150 + k},9,Bergen,yes\n" for k in range(20))
    source = written(tmp_path, "a.csv", "age,bmi,city,died\n" + lines)
    log: list[str] = []
    source.tell(source.read(agreed(), 0), lambda event, **facts: log.append(f"{event} {facts.get('says')}"))
    said = "\n".join(log)
    assert "mind_records 100% of the numbers in 'age' lie outside 0 to 100" in said
    assert "100% of the cells of 'city' say a category that the schema does not list" in said


def test_parquet_and_csv_give_the_same_records(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow
    import pyarrow.parquet

    columns = {"age": [41.5, None, 130.0], "bmi": [22.25, 31.5, 12.0], "city": ["Oslo", "Zürich", "Rome"]}
    table = pyarrow.table({**columns, "died": ["yes", "no", "no"]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    own = RecordSource(str(tmp_path / "a.parquet")).read(agreed(), 0)
    np.testing.assert_allclose(np.column_stack([np.asarray(own.records.x), own.records.y]), expected(), atol=1e-12)
    plain = agreed(
        data={"source": "with the clients", "classes": ["no", "yes"]}, serve={**SERVED["serve"], "features": 3}
    )
    with pytest.raises(DataError, match=r"in a private run data\.schema says what its columns become"):
        RecordSource(str(tmp_path / "a.parquet")).read(plain, 0)


@pytest.mark.slow
def test_two_clients_with_messy_files_of_different_dialects_finish_a_private_federation(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)

    def lines(separator: str, comma: str) -> str:
        ages, sizes = rng.uniform(0, 120, 60), rng.uniform(5, 60, 60)
        rows = [[f"{ages[k]:.1f}", f"{sizes[k]:.1f}", ("Oslo", "", "x")[k % 3]] for k in range(60)]
        cells = [[*(cell.replace(".", comma) for cell in row), "yes" if float(row[0]) > 55 else "no"] for row in rows]
        return "\n".join(
            separator.join(row) for row in [["age", "bmi", "city", "died"], *cells, ["?", "?", "?", "yes"]]
        )

    files = [written(tmp_path, "en.csv", lines(",", ".")), written(tmp_path, "de.csv", lines(";", ","))]
    policy = Policy.model_validate({"epsilon": 100.0, "delta": 1e-3})

    async def play() -> None:
        logs: list[list[dict[str, Any]]] = [[], []]
        async with live_server(tmp_path / "served", SERVED) as on:
            joined = await asyncio.gather(
                *(
                    asyncio.to_thread(
                        join,
                        Endpoint(f"127.0.0.1:{on.port}"),
                        f"client {c}",
                        files[c],
                        tmp_path / f"client{c}",
                        policy,
                        log=lambda event, c=c, **facts: logs[c].append({"event": event, **facts}),
                        backoff=Backoff(0.02, 0.2),
                    )
                    for c in (0, 1)
                )
            )
            assert all(one.model is not None and np.isfinite(one.model).all() and len(one.model) == 7 for one in joined)
            told = str(on.log)
        for log in logs:
            (counted,) = [facts for facts in log if facts["event"] == "records"]
            assert counted["used"] == 60 and counted["unreadable"] == 1
            says = [facts["says"] for facts in log if facts["event"] == "mind_records"]
            assert any("bmi" in one for one in says) and not any(one in told for one in says)
        assert "Oslo" not in told.replace(json.dumps(SCHEMA), "")

    played(play)


def test_a_table_whose_labels_are_others_is_warned_of_by_the_label_of_the_schema(tmp_path: Path) -> None:
    source = written(tmp_path, "a.csv", "died,age,bmi,city\n" + "maybe,1,20,Oslo\n" * 3 + "yes,1,20,Oslo\n")
    log: list[str] = []
    source.tell(source.read(agreed(), 0), lambda event, **facts: log.append(str(facts.get("says"))))
    assert any("3 of 4 records are left out" in says and "the column 'died' the agreed label" in says for says in log)
