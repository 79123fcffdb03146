"""Records that come with their clients: what is put together, what each client holds out, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from crescendo.data import client_names
from crescendo.data.from_arrays import dataset
from crescendo.data.partition import CLIENT
from crescendo.errors import CrescendoError, DataError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.arange(60) % 2
PARTS = [(X[:10], Y[:10]), (X[10:25], Y[10:25]), (X[25:], Y[25:])]
OWNERS = np.repeat([0, 1, 2], [10, 15, 35])


def test_every_client_holds_out_its_share_and_none_goes_empty() -> None:
    made = dataset([(X[:1], Y[:1]), (X[1:11], Y[1:11]), (X[11:], Y[11:])])
    assert made.test is not None and len(made.test) == 2 + 10
    assert np.bincount(made.columns[CLIENT]).tolist() == [1, 8, 39]
    assert client_names(made, 3, f"column:{CLIENT}") == ("client 0", "client 1", "client 2")


@pytest.mark.parametrize("kind", ["pairs", "lists", "two lists", "sparse", "names", "ids", "torch", "loaders"])
def test_every_way_to_give_clients_gives_the_same_records(kind: str) -> None:
    plain = dataset(X, Y, clients=OWNERS)
    x: Any = PARTS
    y: Any = None
    if kind == "lists":
        x = [(part.tolist(), labels.tolist()) for part, labels in PARTS]
    elif kind == "two lists":
        x, y = [part for part, _ in PARTS], [labels for _, labels in PARTS]
    elif kind == "sparse":
        x = [(sparse.csr_matrix(part), labels) for part, labels in PARTS]
    elif kind == "names":
        x = dict(zip("abc", PARTS, strict=True))
    elif kind in ("torch", "loaders"):
        torch = pytest.importorskip("torch", reason="torch is not installed: the torch extra")
        x = [torch.utils.data.TensorDataset(*map(torch.tensor, pair)) for pair in PARTS]
        x = x if kind == "torch" else [torch.utils.data.DataLoader(one, batch_size=4) for one in x]
    found = dataset(X, Y, clients=OWNERS.tolist()) if kind == "ids" else dataset(x, y)
    full: Any = found.train.x
    np.testing.assert_array_equal(full.toarray() if found.train.sparse else full, plain.train.x)
    np.testing.assert_array_equal(found.train.y, plain.train.y)
    expected = plain.columns[CLIENT]
    if kind == "names":
        assert found.columns[CLIENT].tolist() == np.array(list("abc"))[expected].tolist()
    else:
        np.testing.assert_array_equal(found.columns[CLIENT], expected)


def test_clients_may_have_test_parts_of_their_own() -> None:
    made = dataset(PARTS, test=[(part[:2], labels[:2]) for part, labels in PARTS])
    assert made.test is not None and len(made.test) == 6 and len(made.train) == 60


@pytest.mark.parametrize("text", [False, True], ids=["numbers", "text too"])
def test_a_column_of_a_frame_says_whose_records_are_and_is_no_feature(text: bool) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: the demo extra")
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    if text:
        frame["city"] = np.where(X[:, 0] > 0, "Oslo", "Bergen")
    frame["site"], frame["late"] = [f"s{owner}" for owner in OWNERS], Y
    made = dataset(frame, "late", clients="site", test=frame[:9])
    assert made.client_column == "site" and set(made.columns["site"]) == {"s0", "s1", "s2"}
    assert made.features == (5 if text else 3) and made.test is not None and len(made.test) == 9


@pytest.mark.parametrize("library", ["table", "batch"])
def test_arrow_tables_are_data_frames(library: str) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: the parquet extra")
    pytest.importorskip("pandas", reason="pandas is not installed: the demo extra")
    columns = {name: X[:, at] for at, name in enumerate("abc")}
    table = pyarrow.table({**columns, "late": Y})
    table = table.to_batches()[0] if library == "batch" else table
    plain, made = dataset(X, Y, clients=OWNERS), dataset(table, "late", clients=pyarrow.array(OWNERS))
    np.testing.assert_array_equal(made.train.x, plain.train.x)
    np.testing.assert_array_equal(made.columns[CLIENT], plain.columns[CLIENT])
    assert made.names == ("a", "b", "c")
    rows = pyarrow.table({"x": X.tolist(), "late": Y})
    np.testing.assert_array_equal(dataset(rows, "late", clients=OWNERS).train.x, plain.train.x)


def test_ids_that_are_numbers_in_texts_keep_their_order() -> None:
    ids = [f"{owner}" for owner in np.arange(60) % 11]
    assert client_names(dataset(X, Y, clients=ids), 11, f"column:{CLIENT}")[-2:] == ("client 9", "client 10")


@pytest.mark.parametrize(
    ("given", "keys", "says"),
    [
        ((PARTS,), {"clients": OWNERS}, "leave clients out"),
        ((X, Y), {"clients": OWNERS[:9]}, "9 ids for 60 records; give one for each record"),
        ((X, Y), {"clients": 3}, "no ids for 60 records"),
        ((X, Y), {"clients": "site"}, "no data frame; give the id of each record's client, clients=ids"),
        ((X, Y), {"clients": X[:, 0]}, "which is no id of a client"),
        ((X, Y), {"clients": [None, *OWNERS[1:]]}, r"names no client for record 0 \(from 0\)"),
        ((X, Y), {"clients": np.arange(60)}, r"too few records to hold out test=0.2 of each"),
        (([(X, Y), (X[:, :2], Y)],), {}, r"client 1 has records of shape \(2,\) and client 0 of shape \(3,\)"),
        (([(X, Y), (X, Y[:3])],), {}, r"client 1 has 60 records and labels of shape \(3,\)"),
        (([(X, Y), (X[:0], Y[:0])],), {}, "client 1 has no records; leave it out"),
        (([(X, Y), (X, None)],), {}, "client 1 has no label for each of its records"),
        (([(X, X, Y, Y)],), {}, r"client 0 is 4 things, and each client is a pair \(x, y\)"),
        (([X, X],), {}, "without labels is no data"),
        (([X, X], [Y]), {}, "x has the records of 2 clients and y the labels of 1"),
        (({"train": (X, Y), "test": (X, Y)},), {}, "which are no clients; train on one of them: x\\['train'\\]"),
        ((PARTS,), {"classes": [0, 7]}, "asks for 7"),
        (([(X, Y), (X, np.full(60, 5))],), {"classes": [0, 1]}, "client 1 has no record left to train on"),
    ],
)
def test_what_are_no_clients_is_said_in_a_sentence(given: tuple[Any, ...], keys: dict[str, Any], says: str) -> None:
    with pytest.raises(CrescendoError, match=says) as found:
        dataset(*given, **keys)
    assert "\n" not in str(found.value)


def test_pairs_of_one_record_each_are_a_data_set_as_ever() -> None:
    made = dataset(list(zip(X, Y, strict=True)), test=0.0)
    assert made.client_column is None and len(made.train) == 60


def test_a_table_that_is_not_read_yet_is_refused() -> None:
    class LazyFrame:
        columns = ("a",)

        def collect(self) -> None: ...

    with pytest.raises(DataError, match=r"write x\.collect\(\) for x"):
        dataset(LazyFrame(), "a")
