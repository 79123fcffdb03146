"""Seen: the newest server state that a client has received, stored to detect a server that was opened from an older state."""

import json
from contextlib import suppress
from pathlib import Path

from crescendo import system
from crescendo.core.messages import Settled


class Seen:
    """The newest epoch, k and settled rounds that the server has sent.

    This is only a hint: a client without the file works correctly, so it is written without a sync.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.epoch, self.k, self.settled = 0, 0, Settled(0)
        if path is not None:
            with suppress(OSError, ValueError, KeyError, TypeError):
                raw = json.loads(path.read_text())
                self.epoch, self.k = int(raw["epoch"]), int(raw["k"])
                self.settled = Settled(int(raw["below"])).joined(map(_range, raw["beyond"]))

    def note(self, epoch: int, k: int | None, settled: Settled) -> None:
        """Record the server's state, unless it is of an older epoch."""
        if epoch < self.epoch:
            return
        if epoch > self.epoch:
            self.k = 0
        self.epoch, self.k, self.settled = epoch, self.k if k is None else max(k, self.k), settled

    def keep(self) -> None:
        """Write the file. The worker thread does this, not the loop: writing can take longer than a broadcast may wait."""
        if self._path is not None:
            below, beyond = self.settled
            text = json.dumps({"epoch": self.epoch, "k": self.k, "below": below, "beyond": beyond})
            draft = self._path.with_suffix(".draft")
            with suppress(OSError):
                draft.write_text(text)
                system.replace(draft, self._path)


def _range(one: int | list[int]) -> tuple[int, int]:
    """Return a range of rounds that overtook; a file of an earlier version lists single rounds."""
    first, stop = (one, one + 1) if isinstance(one, int) else one
    return int(first), int(stop)
