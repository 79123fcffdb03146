"""csv, npz and IDX files of a user's own: read as written, or refused in one sentence that says where."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crescendo.data import load, split
from crescendo.errors import ConfigError, CrescendoError, DataError

CSV = "size,airline,hours,late\n1.5,UA,2,yes\n2.5,AA,3,no\n-1e1,UA,4,no\n0,DL,5,yes\n"


def write(path: Path, content: str | bytes) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def test_a_csv_has_its_label_last_and_a_text_column_to_split_by(tmp_path: Path) -> None:
    data = load(write(tmp_path / "a.csv", CSV), test=0, column="airline")
    assert data.train.x.tolist() == [[1.5, 2], [2.5, 3], [-10, 4], [0, 5]] and data.test is None
    assert data.classes == ("no", "yes") and data.train.y.tolist() == [1, 0, 0, 1]
    assert [part.tolist() for part in split(data, 3, "column:airline", seed=0)] == [[1], [3], [0, 2]]


def test_a_csv_may_name_its_label_and_be_packed_and_have_dos_lines(tmp_path: Path) -> None:
    text = "\ufeffkind,a,b\r\n3,1,2\r\n\r\n5,3,4\r\n9,5,6\r\n"
    data = load(write(tmp_path / "a.csv.gz", gzip.compress(text.encode())), label="kind", test=0)
    assert data.classes == (3, 5, 9) and data.train.y.tolist() == [0, 1, 2]
    assert data.train.x.tolist() == [[1, 2], [3, 4], [5, 6]]


def test_the_column_to_split_by_keeps_company_with_its_records_when_some_are_held_out(tmp_path: Path) -> None:
    lines = "".join(f"{i},{i % 3},{i % 2}\n" for i in range(60))
    data = load(write(tmp_path / "a.csv", "row,owner,late\n" + lines), column="owner", test=0.5)
    assert data.test is not None and len(data.test) == 30
    assert (data.train.x[:, 0] % 3 == data.columns["owner"]).all()
    assert ((data.train.x[:, 0] % 2 == 1) == (data.train.y == 1)).all()


BAD_CSV: list[tuple[str, dict[str, Any], str]] = [
    ("", {}, "has no records"),
    ("a,b\n", {}, "has no records"),
    ("1,2\n3,4\n", {}, "has no header line"),
    ("a\n1\n2\n", {}, "has one column, 'a'"),
    ("a|b\n1|2\n", {}, "has one column, 'a|b'; between cells stands a comma, a semicolon or a tab"),
    ("a,a,y\n1,2,3\n", {}, "two columns called 'a'"),
    ("a,,y\n1,2,3\n", {}, "a column without a name, the 2th"),
    ("a,b,y\n1,2,0\n1,2\n", {}, "line 3: 2 cells where the header has 3"),
    ("a,b,y\n1,2,0\n\n1,2,0,4\n", {}, "line 4: 4 cells where the header has 3"),
    ("a,b,y\n1,2,0\n1,UA,1\n", {}, "line 3: column 'b' is 'UA', not a finite number"),
    ("a,b,y\n1,2,0\n1,,1\n", {}, "line 3: column 'b' is empty"),
    ("a,b,y\n1,nan,0\n1,2,1\n", {}, "line 2: column 'b' is 'nan', not a finite number"),
    ("a,b,y\n1,1e999,0\n1,2,1\n", {}, "line 2: column 'b' is '1e999', not a finite number"),
    ("a,b,y\n1,2,\n1,2,1\n", {}, "line 2: column 'y' is empty"),
    ("a,b,y\n1,2,0\n1,2,0\n", {}, "every record of"),
    ("a,b,y\n1,2,0.5\n1,2,1\n3,4,2.5\n", {}, "3 different labels, such as 0.5 and 1, which are not classes"),
    ('a,b,y\n1,2,0\n1,"2,1\n', {}, "line 3: unexpected end of data"),
    ("a,b,y\n1,2,0\n1,2,1\n", {"label": "z"}, "data.label asks for column 'z', but the columns of"),
    ("a,b,y\n1,2,0\n1,2,1\n", {"column": "z"}, "clients.split asks for column 'z'"),
    ("a,b,y\n1,2,0\n1,2,1\n", {"column": "y"}, "use split = 'label'"),
    ("a,y\n1,0\n1,1\n", {"column": "a"}, "no column left for a feature"),
    ("a,b,y\n1,2,0\n1,2,1\n", {"classes": (0, 7)}, "data.classes asks for 7, but the labels of"),
    ("a,b,y\n1,2,0\n1,2,1\n", {"classes": ("no", "yes")}, "data.classes asks for 'no', 'yes', but"),
    ("a,b,y\n1,2,0\n1,2,1\n", {"classes": (1, 1)}, "at least two classes"),
    ("a,b,y\n1,2,0\n1,2,1\n", {"features": 3}, "data.features is for LIBSVM files"),
]


@pytest.mark.parametrize(("text", "options", "says"), BAD_CSV)
def test_a_bad_csv_is_refused(tmp_path: Path, text: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(CrescendoError) as error:
        load(write(tmp_path / "bad.csv", text), test=0, **options)
    assert says in str(error.value) and "\n" not in str(error.value)


def test_a_csv_in_another_encoding_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not UTF-8 text"):
        load(write(tmp_path / "bad.csv", "größe,y\n1,2\n".encode("latin-1")))


def save(path: Path, **arrays: Any) -> str:
    np.savez(path, **arrays)
    return str(path)


def test_an_npz_keeps_its_own_test_part_and_columns(tmp_path: Path) -> None:
    images, labels = np.arange(24, dtype=np.uint8).reshape(4, 2, 3), np.array([3, 1, 3, 1])
    path = save(
        tmp_path / "a.npz", x=images, y=labels, x_test=images[:2], y_test=labels[:2], owner=np.array(list("abab"))
    )
    data = load(path)
    assert data.train.x.shape == (4, 6) and data.train.x.dtype == np.float64 and data.classes == (1, 3)
    assert data.test is not None and data.test.y.tolist() == [1, 0]
    assert [part.tolist() for part in split(data, None, "column:owner", seed=0)] == [[0, 2], [1, 3]]


def test_an_npz_of_float32_stays_float32(tmp_path: Path) -> None:
    data = load(save(tmp_path / "a.npz", X=np.eye(4, dtype=np.float32), y=np.array([0, 1, 0, 1])), test=0.5)
    assert data.train.x.dtype == np.float32 and len(data.train) == 2


X, Y = np.eye(4), np.array([0, 1, 0, 1])
BAD_NPZ: list[tuple[dict[str, Any], str]] = [
    ({"x": X}, "has no array 'y' (it has none)"),
    ({"a": X, "y": Y}, "has no array 'x' (it has a, y)"),
    ({"x": X[:3], "y": Y}, "x of shape (3, 4) and y of shape (4,)"),
    ({"x": X[0], "y": Y}, "x of shape (4,)"),
    ({"x": X * np.nan, "y": Y}, "must be finite numbers"),
    ({"x": X.astype(str), "y": Y}, "must be finite numbers"),
    ({"x": X, "y": np.array([0, 1, None, 1], dtype=object)}, "holds Python objects"),
    ({"x": X, "y": Y, "x_test": X[:, :3], "y_test": Y}, "4 features in its training part and 3 in its test part"),
    ({"x": X, "y": Y, "x_test": X, "y_test": Y + 1}, "has the label 2, which its training part never has"),
]


@pytest.mark.parametrize(("arrays", "says"), BAD_NPZ)
def test_a_bad_npz_is_refused(tmp_path: Path, arrays: dict[str, Any], says: str) -> None:
    with pytest.raises(DataError) as error:
        load(save(tmp_path / "bad.npz", **arrays))
    assert says in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip at all"])
def test_a_damaged_npz_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataError, match=r"bad\.npz"):
        load(write(tmp_path / "bad.npz", content))


def test_every_cut_of_an_npz_is_refused(tmp_path: Path) -> None:
    whole = Path(save(tmp_path / "a.npz", x=X, y=Y)).read_bytes()
    for at in range(0, len(whole), 7):
        with pytest.raises(DataError):
            load(write(tmp_path / "cut.npz", whole[:at]))


def idx(array: np.ndarray[Any, Any]) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


IMAGES, DIGITS = np.arange(5 * 6, dtype=np.uint8).reshape(5, 2, 3), np.array([0, 1, 2, 1, 0], dtype=np.uint8)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_images_find_their_labels_and_their_test_part(tmp_path: Path, suffix: str) -> None:
    for part, many in (("train", 5), ("t10k", 3)):
        for kind, array in (("images-idx3", IMAGES), ("labels-idx1", DIGITS)):
            content = idx(array[:many])
            write(tmp_path / f"{part}-{kind}-ubyte{suffix}", gzip.compress(content) if suffix else content)
    data = load(str(tmp_path / f"train-images-idx3-ubyte{suffix}"))
    assert data.test is not None and len(data.test) == 3 and data.classes == (0, 1, 2)
    np.testing.assert_array_equal(data.train.x, IMAGES.reshape(5, 6).astype(np.float32) / np.float32(255))
    two = load(str(tmp_path / f"train-images-idx3-ubyte{suffix}"), classes=(1, 2))
    assert two.train.y.tolist() == [0, 1, 0] and two.test is not None and two.test.y.tolist() == [0, 1]
    with pytest.raises(DataError, match="is not the train-images-idx3-ubyte that is known here"):
        load("mnist", folder=tmp_path)


@pytest.mark.parametrize(
    ("images", "digits", "says"),
    [
        (idx(IMAGES)[:-1], idx(DIGITS), "has 45 bytes, but its header announces 46"),
        (idx(IMAGES) + b"x", idx(DIGITS), "has 47 bytes, but its header announces 46"),
        (idx(IMAGES)[:10], idx(DIGITS), "is not an IDX file of bytes in 3 dimension(s)"),
        (idx(DIGITS), idx(DIGITS), "is not an IDX file of bytes in 3 dimension(s)"),
        (idx(IMAGES), idx(IMAGES), "is not an IDX file of bytes in 1 dimension(s)"),
        (idx(IMAGES), idx(DIGITS[:4]), "has 5 images and"),
        (idx(IMAGES), None, "has no labels beside it; put train-labels-idx1-ubyte into the same folder"),
    ],
)
def test_a_bad_idx_file_is_refused(tmp_path: Path, images: bytes, digits: bytes | None, says: str) -> None:
    if digits is not None:
        write(tmp_path / "train-labels-idx1-ubyte", digits)
    with pytest.raises(DataError) as error:
        load(write(tmp_path / "train-images-idx3-ubyte", images))
    assert says in str(error.value)


@pytest.mark.parametrize("name", ["a.feather", "a.npy", "a.xlsx", "a.json.gz"])
def test_other_formats_are_refused_by_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="data files are LIBSVM text"):
        load(write(tmp_path / name, b"1 1:1\n"))


def test_options_that_do_not_apply_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "1 1:1\n0 2:1\n")
    with pytest.raises(ConfigError, match=r"data\.label is about the columns of a table"):
        load(path, label="y")
    for options in ({"label": "y"}, {"features": 3}):
        with pytest.raises(ConfigError, match="does not apply to the source iris"):
            load("iris", **options)
