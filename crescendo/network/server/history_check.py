"""History check: reads the whole journal in the background after a server's start, and logs damage.

To be quick, a start reads only the newest snapshot and the entries after it; damage before that would be found only when those
entries are needed. This checks checksums and order only. A replay would slow the server's training too much; `crescendo verify`
does one.
"""

from pathlib import Path
from typing import Self

from crescendo import system
from crescendo.errors import CrescendoError
from crescendo.logs import Log
from crescendo.storage.upkeep.examination import Examination
from crescendo.storage.upkeep.journal_check import check_journal
from crescendo.storage.upkeep.journal_listing import FilesGoAway

MAX_WAIT = 5.0  # seconds that a stopping server waits for the current read


class HistoryCheck:
    """Checks the journal in ``folder`` once, in a thread; the end of the block stops it."""

    def __init__(self, folder: Path, log: Log) -> None:
        self._folder, self._log, self._stopped = folder, log, system.Event()
        self._thread = system.Thread(target=self._run, name="history check", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        self._thread.join(MAX_WAIT)

    def wait(self) -> None:
        """Wait until the whole journal was read."""
        self._thread.join()

    def _run(self) -> None:
        found = Examination(self._folder, "server")
        try:
            check_journal(self._folder, None, found, pause=self._check_stopped)
        except (_Stopped, FilesGoAway):  # the latter: the files of the start were pruned, and are no longer needed
            return
        except (CrescendoError, OSError) as error:
            found.damage.append(f"the journal could not be checked ({error})")
        for sentence in found.damage:
            self._log("journal_damaged", reason=sentence)

    def _check_stopped(self) -> None:
        if self._stopped.is_set():
            raise _Stopped


class _Stopped(Exception):
    """The server stops before the whole journal was read; the next start reads it again."""
