"""History check: reads the whole journal in the background of a server's start, and logs what of it is damaged.

A start itself reads the newest snapshot and what follows it, so that it is quick; what rots before that would be found
only when it is needed. Checksums and order alone are checked: a replay beside a server that trains would cost it too much, and
is what `crescendo verify` does.
"""

from pathlib import Path
from typing import Self

from crescendo import system
from crescendo.errors import CrescendoError
from crescendo.logs import Log
from crescendo.storage.upkeep.examination import Examination
from crescendo.storage.upkeep.journal_check import check_journal
from crescendo.storage.upkeep.journal_listing import FilesGoAway

MAX_WAIT = 5.0  # seconds that a server which ends waits for a read in hand


class HistoryCheck:
    """Checks the journal in ``folder`` once, in a thread, while the ``with`` lasts."""

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
        """Until all of it was read."""
        self._thread.join()

    def _run(self) -> None:
        found = Examination(self._folder, "server")
        try:
            check_journal(self._folder, None, found, pause=self._check_stopped)
        except (_Stopped, FilesGoAway):  # the latter: all that was there at the start was pruned, and nothing needs it
            return
        except (CrescendoError, OSError) as error:
            found.damage.append(f"the journal could not be checked ({error})")
        for sentence in found.damage:
            self._log("journal_damaged", reason=sentence)

    def _check_stopped(self) -> None:
        if self._stopped.is_set():
            raise _Stopped


class _Stopped(Exception):
    """The server ends before all was read; the next start reads it again."""
