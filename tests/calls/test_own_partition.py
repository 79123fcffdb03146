"""Runs whose records come with their clients: the same run from arrays, ids, columns and its own run file, private ones too."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crescendo
from crescendo.calls.loaded_run import LoadedRun
from crescendo.errors import CrescendoError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3)) * [1.0, 10.0, 100.0]
Y = np.where(X[:, 0] + X[:, 1] / 10 > 0, "late", "on time")
OWNERS = np.repeat([0, 1, 2], [60, 90, 150])
SITES = np.array(["oslo", "bergen", "voss"])[OWNERS]
PARTS = [(X[owner == OWNERS], Y[owner == OWNERS]) for owner in range(3)]
KEYS: dict[str, Any] = {"gradients": 600, "rounds": 6}
PUBLIC: dict[str, Any] = {"epsilon": 2.0, "classes": ["late", "on time"], "gradients": 300, "rounds": 5}
simulate: Any = crescendo.simulate


def frame() -> Any:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: the demo extra")
    made = pandas.DataFrame(X, columns=["a", "b", "c"])
    made["site"], made["delay"] = SITES, Y
    return made


@pytest.mark.slow
def test_a_list_of_clients_ids_and_the_run_file_of_either_are_one_run() -> None:
    first = simulate(PARTS, **KEYS)
    assert first.prepared.names == ("client 0", "client 1", "client 2")
    assert first.prepared.dataset.scaling is not None, "columns that differ in size are scaled as ever"
    assert first.prepared.terms.weights == pytest.approx((0.2, 0.3, 0.5))
    asked = tomllib.loads(str(first.config))["clients"]
    assert (asked["split"], asked["count"]) == ("column:client", 3)
    given: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((X, Y), {"clients": OWNERS, **KEYS}),
        ((PARTS,), {"clients": 3, **KEYS}),
        ((first.config,), {"data": PARTS}),
        ((first.config,), {"data": (X, Y), "clients": OWNERS}),
        ((first.config,), {"data": crescendo.dataset(X, Y, clients=OWNERS)}),
        ((crescendo.dataset(X, Y, clients=OWNERS),), KEYS),
    ]
    for arguments, keys in given:
        assert np.array_equal(simulate(*arguments, **keys).model, first.model), keys


def test_a_run_file_takes_the_clients_of_the_records_beside_it() -> None:
    plain = simulate(X, Y, **KEYS)
    assert simulate(plain.config, data=PARTS).prepared.terms.clients == 3
    with pytest.raises(CrescendoError, match=r"the run file splits them too: clients.split = 'dirichlet'"):
        simulate(plain.config, data=PARTS, overrides=["clients.split=dirichlet"])


@pytest.mark.parametrize(
    "asked", [{"split": "column:site"}, {"clients": "site"}, {"split": "column:site", "clients": 3}]
)
def test_a_column_of_a_frame_splits_it_and_is_no_feature(asked: dict[str, Any], tmp_path: Path) -> None:
    found = simulate(frame(), "delay", **asked, **KEYS, out=tmp_path / "run")
    assert found.prepared.names == ("bergen", "oslo", "voss") and found.prepared.dataset.names == ("a", "b", "c")
    again = simulate(found.config, data=(frame(), "delay"))
    loaded = crescendo.load(tmp_path / "run")
    assert isinstance(loaded, LoadedRun)
    assert np.array_equal(again.model, found.model) and loaded.config.clients.split == "column:site"
    assert loaded.predict(frame()).tolist() == found.predict(frame()).tolist() == again.predict(frame()).tolist()
    assert "split by site" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_studies_take_clients_too() -> None:
    compared = crescendo.compare(PARTS, rivals=["fedavg"], seeds=1, tune=2, **KEYS)
    assert compared.ours.outcomes[0].status == "done" and compared.config.clients.count == 3
    swept: Any = crescendo.sweep
    found = swept(frame(), "delay", ["run.seed=0..1"], split="column:site", **KEYS)
    assert found.count("done") == 2
    assert simulate(PARTS, **KEYS).accuracy == swept(PARTS, over=["run.seed=0"], **KEYS).points[0].outcome.accuracy


@pytest.mark.slow
def test_a_private_run_counts_no_clients() -> None:
    """An id that one record brings along must not make another client of the run."""
    for arguments, keys in (((X, Y), {"clients": SITES}), ((frame(), "delay"), {"split": "column:site"})):
        with pytest.raises(CrescendoError, match=r"records=\{'bergen': 1000, 'oslo': 1000, \.\.\}"):
            simulate(*arguments, records=200, **keys, **PUBLIC)
    declared = {"oslo": 80, "bergen": 110, "voss": 170}
    found = simulate(X, Y, clients=SITES, records=declared, **PUBLIC)
    listed = simulate(frame(), "delay", split="column:site", records=[110, 80, 170], **PUBLIC)
    assert [(one["name"], one["records"]) for one in found.privacy["clients"]] == [
        ("bergen", 110),
        ("oslo", 80),
        ("voss", 170),
    ]
    assert listed.privacy == found.privacy and found.config.looked_at == () == listed.config.looked_at
    assert found.prepared.terms.weights == pytest.approx((110 / 360, 80 / 360, 170 / 360)), "by what is declared"
    stray = np.where(np.arange(300) == 7, "narvik", SITES)
    with pytest.raises(CrescendoError, match="'narvik' is in one of them only"):
        simulate(X, Y, clients=stray, records=declared, **PUBLIC)
    with pytest.raises(CrescendoError, match="makes 4 clients, one for each value, not 3"):
        simulate(X, Y, clients=stray, records=[200, 200, 200], **PUBLIC)


@pytest.mark.slow
def test_a_private_list_of_clients_says_how_many_they_are() -> None:
    found, less = (simulate(parts, records=200, **PUBLIC) for parts in (PARTS, [PARTS[0], PARTS[1], (X[:70], Y[:70])]))
    assert found.privacy["epsilon"] <= 2.0 and found.config == less.config and found.privacy == less.privacy
    assert found.config.looked_at == ()
    with pytest.raises(CrescendoError, match="certifies clients with"):
        simulate(PARTS, records=[50, 50, 50], **PUBLIC)


def test_clients_that_were_counted_are_marked_and_clients_that_were_given_are_not() -> None:
    plain = simulate(X, Y, **KEYS).config
    runs = (
        simulate(X, Y, clients=SITES, **KEYS),
        simulate(PARTS, **KEYS),
        simulate(plain, data=(X, Y), clients=SITES),
    )
    marks = [[str(one) for one in run.config.draft.looked_at] if run.config.draft else [] for run in runs]
    assert ["clients.count" in found for found in marks] == [True, False, True]


@pytest.mark.parametrize(
    ("arguments", "keys", "says"),
    [
        ((PARTS,), {"clients": 5}, "x has the records of 3 clients, so that clients would say it twice"),
        ((PARTS,), {"split": "dirichlet"}, "nothing is left to split; leave split out"),
        ((X, Y), {"clients": SITES, "split": "label"}, "nothing is left to split; leave split out"),
        ((X, Y), {"split": "column:site"}, "clients=ids"),
        ((X, Y), {"clients": SITES[:5]}, "5 ids for 300 records"),
        (
            (X, Y),
            {"records": {"oslo": 9}, "clients": 3},
            "records by name are for records that come with their clients",
        ),
    ],
)
def test_what_is_said_twice_is_refused(arguments: tuple[Any, ...], keys: dict[str, Any], says: str) -> None:
    with pytest.raises(CrescendoError, match=says) as found:
        simulate(*arguments, **keys)
    assert "\n" not in str(found.value)
