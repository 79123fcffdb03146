"""`crescendo data get` against a server on loopback: a file arrives whole and with the known content, or nothing is kept."""

from __future__ import annotations

import bz2
import contextlib
import errno
import fcntl
import hashlib
import http.server
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from crescendo.cli.main import app
from crescendo.data import load
from crescendo.data.download import get
from crescendo.data.formats.files import downloads
from crescendo.data.registry import SOURCES, catalogue
from crescendo.data.sets.from_folder import _libsvm_source
from crescendo.data.sets.known import MNIST, SETS, KnownFile, KnownSet
from crescendo.data.sets.origins import DOWNLOADS, Download
from crescendo.errors import ConfigError, DataError

TRAIN, TEST = b"+1 1:1 3:0.5\n-1 2:1\n" * 40_000, b"-1 1:1\n"


class Mirror(http.server.ThreadingHTTPServer):
    """Serves ``files`` by name. ``cut`` closes a connection after so many bytes of what was announced."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.files = {"tiny": TRAIN, "tiny.t.bz2": bz2.compress(TEST)}
        self.asked: list[str] = []
        self.cut: int | None = None
        self.announce = True

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/sets"


class _Answer(http.server.BaseHTTPRequestHandler):
    server: Mirror

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        self.server.asked.append(name)
        if name not in self.server.files:
            self.send_error(404)
            return
        content = self.server.files[name]
        self.send_response(200)
        if self.server.announce:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # the other side may have had enough
            self.wfile.write(content[: self.server.cut])
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    with Mirror() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def nowhere() -> Iterator[str]:
    """The address of a port that is taken and where nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/"


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mirror: Mirror) -> None:
    """A known set whose training part is served plain and whose test part is served packed, by a packing of unknown hash."""
    train, test = (
        KnownFile(name, hashlib.sha256(text).hexdigest()) for name, text in (("tiny", TRAIN), ("tiny.t", TEST))
    )
    chosen = KnownSet("tiny", "records", 80_000, 5, (-1, 1), train, test)
    monkeypatch.setitem(SETS, "tiny", chosen)
    monkeypatch.setitem(SOURCES, "tiny", _libsvm_source(chosen))
    folders = (mirror.address + "/",)
    served = Download(train, "tiny", len(TRAIN), folders), Download(test, "tiny.t.bz2", len(TEST), folders)
    monkeypatch.setitem(DOWNLOADS, "tiny", served)
    monkeypatch.setenv("CRESCENDO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def kept() -> list[str]:
    """What the cache holds of downloads."""
    return sorted(path.name for path in downloads().glob("*") if path.name != ".lock")


def refused(*words: str) -> None:
    with pytest.raises(DataError) as error:
        get("tiny")
    said = str(error.value)
    assert "\n" not in said and all(word in said for word in words), said


@pytest.mark.slow
def test_a_set_is_downloaded_once_and_then_loads_by_its_name(mirror: Mirror) -> None:
    with pytest.raises(DataError, match="get it with crescendo data get tiny"):
        load("tiny")
    told: list[tuple[str, int, int | None]] = []
    first = get("tiny", progress=lambda *now: told.append(now))
    assert [file.downloaded for file in first] == [True, True] and kept() == ["tiny", "tiny.t.bz2"]
    assert told[0] == ("tiny", 1 << 16, len(TRAIN)) and ("tiny", len(TRAIN), len(TRAIN)) in told
    again = get("tiny")
    assert [file.downloaded for file in again] == [False, False] and mirror.asked == ["tiny", "tiny.t.bz2"]
    data = load("tiny")
    assert len(data.train) == 80_000 and data.test is not None and len(data.test) == 1
    assert next(info for info in catalogue() if info.name == "tiny").here


def test_a_spoilt_copy_in_the_cache_is_replaced(mirror: Mirror) -> None:
    get("tiny")
    (downloads() / "tiny").write_bytes(TRAIN[:-5])
    assert [file.downloaded for file in get("tiny")] == [True, False]
    assert (downloads() / "tiny").read_bytes() == TRAIN


def test_other_content_is_refused_whether_plain_or_packed_and_nothing_is_kept(mirror: Mirror) -> None:
    for name, content in (("tiny", TRAIN.replace(b"0.5", b"0.6")), ("tiny.t.bz2", bz2.compress(b"+1 1:1\n"))):
        mirror.files[name] = content
        refused(f"sent as {name} is not the known", "sha256", "nothing was kept", "--from")
        mirror.files["tiny"] = TRAIN
    assert kept() == ["tiny"]


@pytest.mark.parametrize(
    "content", [b"", b"BZh9 no archive", bz2.compress(TEST)[:-4], bz2.compress(TEST + b"+1 2:1\n")]
)
def test_an_archive_that_is_cut_or_has_more_in_it_is_refused(mirror: Mirror, content: bytes) -> None:
    mirror.files["tiny.t.bz2"] = content
    refused("tiny.t.bz2 is not the known tiny.t of 7 bytes")
    assert kept() == ["tiny"]


def test_a_connection_that_breaks_off_leaves_nothing_and_the_next_try_begins_anew(mirror: Mirror) -> None:
    mirror.cut = 200_000
    refused("tiny could not be downloaded from 127.0.0.1", "broke off", "try again later")
    mirror.announce = False  # a server that does not say how much there is: the hash tells
    refused("what 127.0.0.1", "is not the known tiny")
    assert kept() == []
    mirror.cut, mirror.announce = None, True
    assert [file.downloaded for file in get("tiny")] == [True, True]


def test_what_a_killed_download_left_is_removed_by_the_next(mirror: Mirror) -> None:
    stage = downloads() / ".partial"
    stage.mkdir(parents=True)
    (stage / "tmp0").write_bytes(b"half")
    get("tiny")
    assert kept() == ["tiny", "tiny.t.bz2"]


def test_two_downloads_into_one_folder_do_not_mix(mirror: Mirror) -> None:
    downloads().mkdir(parents=True)
    with (downloads() / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match=r"another download into .* is at work"):
            get("tiny")


def test_a_server_without_the_file_and_no_server_at_all_are_one_sentence_each(mirror: Mirror, nowhere: str) -> None:
    del mirror.files["tiny"]
    refused("tiny could not be downloaded", "answers 404", "data.folder")
    with pytest.raises(DataError, match="there is no connection"):
        get("tiny", mirror=nowhere)
    assert kept() == []


def test_more_bytes_than_the_file_can_have_are_not_taken(mirror: Mirror) -> None:
    mirror.files["tiny"], mirror.announce = TRAIN * 20, False
    told: list[int] = []
    with pytest.raises(DataError, match="is not the known tiny"):
        get("tiny", progress=lambda name, done, total: told.append(done))
    assert max(told) <= len(TRAIN) + (1 << 17) and kept() == []


def test_a_full_disk_is_one_sentence(mirror: Mirror) -> None:
    def full(name: str, done: int, total: int | None) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(DataError, match=r"no room for tiny in .*nothing of it was kept; make room \(800,000"):
        get("tiny", progress=full)
    assert kept() == []


def test_an_interrupt_leaves_nothing(mirror: Mirror) -> None:
    def interrupt(name: str, done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get("tiny", progress=interrupt)
    assert kept() == []


def test_the_second_address_is_asked_where_the_first_fails(
    mirror: Mirror, nowhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, test = DOWNLOADS["tiny"]
    moved = tuple(Download(one.file, one.served_as, one.size, (nowhere, *one.folders)) for one in (train, test))
    monkeypatch.setitem(DOWNLOADS, "tiny", moved)
    assert all(file.downloaded for file in get("tiny"))
    mirror.files.clear()
    (downloads() / "tiny").unlink()
    refused(nowhere.removeprefix("http://").rstrip("/"), "no connection")  # of both failures the first address's


def test_a_folder_of_ones_own_is_filled_and_a_strange_file_in_it_is_left_alone(mirror: Mirror, tmp_path: Path) -> None:
    own = tmp_path / "own"
    assert all(file.path.parent == own for file in get("tiny", own))
    assert len(load("tiny", folder=own).train) == 80_000 and kept() == []
    (own / "tiny").write_bytes(b"mine")
    with pytest.raises(DataError, match="is not the tiny that is known here"):
        get("tiny", own)
    assert (own / "tiny").read_bytes() == b"mine"


def test_a_set_in_the_data_folder_is_not_downloaded(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    get("tiny", tmp_path / "own")
    monkeypatch.setenv("CRESCENDO_DATA", str(tmp_path / "own"))
    assert not any(file.downloaded for file in get("tiny")) and kept() == []


def test_the_command_says_where_the_files_are_and_lists_the_set_as_here(mirror: Mirror, nowhere: str) -> None:
    run = CliRunner()
    first = run.invoke(app, ["data", "get", "tiny", "--from", mirror.address])
    assert first.exit_code == 0 and first.stdout.splitlines() == [
        f"downloaded {downloads() / 'tiny'}",
        f"downloaded {downloads() / 'tiny.t.bz2'}",
    ]
    again = run.invoke(app, ["data", "get", "tiny", "--json"])
    assert json.loads(again.stdout)["files"][0] == {
        "file": "tiny",
        "path": str(downloads() / "tiny"),
        "downloaded": False,
    }
    listed = {one["name"]: one for one in json.loads(run.invoke(app, ["data", "list", "--json"]).stdout)["sources"]}
    assert listed["tiny"]["here"] and listed["real-sim"]["comes_from"] == "crescendo data get real-sim"
    failed = run.invoke(app, ["data", "get", "a9a", "--from", nowhere])
    assert failed.exit_code == 1 and failed.stderr.startswith("crescendo: a9a could not be downloaded")
    assert len(failed.stderr.splitlines()) == 1 and not failed.stdout


def test_what_cannot_be_downloaded_is_said() -> None:
    with pytest.raises(
        ConfigError, match=r"there is no set .a9b. to download; did you mean a9a\? the sets are a9a, w8a"
    ):
        get("a9b")
    with pytest.raises(
        ConfigError, match=r"wine needs no download .it comes from here: scikit-learn.; name it as data.source"
    ):
        get("wine")
    with pytest.raises(ConfigError, match="ftp://x is not the address of a mirror"):
        get("tiny", mirror="ftp://x")


def test_every_file_that_is_known_has_a_size_and_an_address() -> None:
    known = {file.name for one in SETS.values() for file in (one.train, one.test) if file}
    known |= {file.name for pair in MNIST.values() for file in pair}
    downloadable = {one.file.name: one for files in DOWNLOADS.values() for one in files}
    assert set(downloadable) == known
    for one in downloadable.values():
        assert one.size > 0 and one.folders and one.served_as.startswith(one.file.name)


def test_the_sizes_are_those_of_the_files(shared_data: Path) -> None:
    from crescendo.data.formats.files import DataFile

    for one in (one for name in ("a9a", "w8a", "phishing") for one in DOWNLOADS[name]):
        found = DataFile.find([one.file.name], shared_data)
        assert found is not None and len(found.content) == one.size
