"""Downloads of known sets: a file appears in its folder only whole and with the known content.

A download goes to a staging folder, is unpacked and compared with the known size and sha256, and only then gets its name. So no
server has to be trusted, and an interrupted download leaves no file that a loader could take for the set.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import fcntl
import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from crescendo.data.formats.files import DataFile, data_folder, downloads
from crescendo.data.registry import catalogue
from crescendo.data.sets.origins import DOWNLOADS, Download
from crescendo.errors import ConfigError, DataError

if TYPE_CHECKING:
    from requests import RequestException

Told = Callable[[str, int, int | None], None]  # the file, bytes so far, and the total if the server sends it
_PATIENCE = (10, 60)  # seconds for a connection, and for the next bytes
_CHUNK = 1 << 16
_STAGE, _LOCK = ".partial", ".lock"


@dataclass(frozen=True)
class Stored:
    """A file of a set: its path, and a flag for a file that this call downloaded."""

    name: str
    path: Path
    downloaded: bool

    def to_json(self) -> dict[str, Any]:
        return {"file": self.name, "path": str(self.path), "downloaded": self.downloaded}


def get(
    source: str,
    folder: Path | str | None = None,
    mirror: str | None = None,
    progress: Told = lambda name, done, total: None,
) -> list[Stored]:
    """Return the files of a known set, downloading each unless a sound copy is present.

    The files go to ``folder`` or, by default, to the cache, where `load` finds them. ``mirror`` is the address of a folder that
    has them under their original names.
    """
    if source not in DOWNLOADS:
        raise ConfigError(_not_for_download(source))
    if mirror is not None and urlsplit(mirror).scheme not in ("http", "https"):
        raise ConfigError(f"{mirror} is not the address of a mirror; one begins with https:// or http://")
    to = downloads() if folder is None else Path(folder).expanduser()
    places = [to] if folder is not None else [place for place in (data_folder(None), to) if place is not None]
    found = []
    for wanted in DOWNLOADS[source]:
        there = _sound_copy(wanted, places)
        found.append(Stored(wanted.file.name, there or _download(wanted, to, mirror, progress), there is None))
    return found


def _not_for_download(source: str) -> str:
    way = next((info.comes_from for info in catalogue() if info.name == source), None)
    if way is not None:
        return f"{source} needs no download (it comes from here: {way}); name it as data.source"
    near = difflib.get_close_matches(source, DOWNLOADS, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"there is no set {source!r} to download; {hint}the sets are {', '.join(DOWNLOADS)}"


def _sound_copy(wanted: Download, places: list[Path]) -> Path | None:
    """Find a sound copy. Remove a damaged copy from the cache; raise for one in the user's folder, for the user to remove."""
    for place in places:
        file = DataFile.find([wanted.file.name], place, fall_back=False)
        if file is None:
            continue
        try:
            file.check(wanted.file)
        except DataError:
            if place != downloads():
                raise
            file.path.unlink()
            continue
        return file.path
    return None


def _download(wanted: Download, to: Path, mirror: str | None, progress: Told) -> Path:
    """Download from the first address that serves the file; if all fail, raise the first error."""
    failures = []
    with _room(wanted, to), _alone(to) as stage:
        for folder in wanted.folders if mirror is None else (mirror.rstrip("/") + "/",):
            try:
                path = _fetch(wanted, folder + wanted.served_as, stage, progress)
                _verify(wanted, path, folder)
            except DataError as error:
                failures.append(error)
                continue
            return path.replace(to / wanted.served_as)
    raise failures[0]


def _fetch(wanted: Download, address: str, stage: Path, progress: Told) -> Path:
    """Download the bytes from an address, and check them against the known hash if there is one."""
    import pooch
    from requests import RequestException

    pooch.get_logger().setLevel("ERROR")  # by default it logs every download to stderr
    name, known = wanted.served_as, wanted.transferred
    meter = _Meter(wanted, progress)
    http = pooch.HTTPDownloader(meter, _CHUNK, timeout=_PATIENCE)
    try:
        return Path(pooch.retrieve(address, known and f"sha256:{known}", name, stage, downloader=http))
    except RequestException as error:
        raise DataError(
            f"{name} could not be downloaded from {_host(address)} ({_reason(error, meter.begun)}); nothing was kept: try again "
            "later, name a mirror with --from, or put the file into a folder of your own and name that as data.folder"
        ) from None
    except ValueError:  # from pooch, for a wrong hash
        raise _other_content(wanted, address) from None


def _verify(wanted: Download, path: Path, address: str) -> None:
    """Refuse a file that does not unpack to exactly the known bytes; no more than those are unpacked."""
    digest, size = hashlib.sha256(), 0
    try:
        with DataFile(path).opened() as content:
            while size <= wanted.size and (chunk := content.read(_CHUNK)):
                digest.update(chunk)
                size += len(chunk)
    except DataError:  # cannot be unpacked
        size = -1
    if size != wanted.size or digest.hexdigest() != wanted.file.content:
        path.unlink()
        raise _other_content(wanted, address)


def _other_content(wanted: Download, address: str) -> DataError:
    return DataError(
        f"what {_host(address)} sent as {wanted.served_as} is not the known {wanted.file.name} of {wanted.size:,} bytes with "
        f"sha256 {wanted.file.content}; nothing was kept: it was cut short or changed on the way, so try again, or name a mirror "
        "with --from"
    )


class _Meter:
    """Passes the progress from pooch on, and ends a download that sends more than the file can have."""

    def __init__(self, wanted: Download, progress: Told) -> None:
        self.total, self._done, self._wanted, self._told = 0, 0, wanted, progress

    def update(self, more: int) -> None:
        self._done += more
        if self._done > self._wanted.size + 2 * _CHUNK:  # no packed file is longer than what it unpacks to
            raise ValueError
        self._told(self._wanted.served_as, min(self._done, self.total or self._done), self.total or None)

    @property
    def begun(self) -> bool:
        return self._done > 0

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        pass


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[Path]:
    """Yield an empty staging folder and remove it afterwards; refuse a second download into the same folder."""
    folder.mkdir(parents=True, exist_ok=True)
    stage = folder / _STAGE
    with (folder / _LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"another download into {folder} is at work; wait for it to end") from None
        shutil.rmtree(stage, ignore_errors=True)  # of a download that was killed
        stage.mkdir()
        try:
            yield stage
        finally:
            shutil.rmtree(stage, ignore_errors=True)


@contextlib.contextmanager
def _room(wanted: Download, folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DataError(
            f"there is no room for {wanted.served_as} in {folder}, and nothing of it was kept; make room ({wanted.size:,} bytes "
            "are enough), or name another folder with --to"
        ) from None


def _host(address: str) -> str:
    return urlsplit(address).netloc


def _reason(error: RequestException, begun: bool) -> str:
    from requests import ConnectionError, HTTPError, Timeout
    from requests.exceptions import ChunkedEncodingError, SSLError

    if isinstance(error, HTTPError) and error.response is not None:
        return f"it answers {error.response.status_code} {error.response.reason}"
    if begun or isinstance(error, ChunkedEncodingError):
        return "the connection broke off"
    if isinstance(error, Timeout):
        return "it does not answer"
    if isinstance(error, SSLError):
        return "its certificate is not one that this machine trusts"
    return "there is no connection" if isinstance(error, ConnectionError) else type(error).__name__
