"""Local test: a client measures the last model on its own held-out records, on its own machine.

What it finds is printed, logged and written in the client's own folder, after the last word with the server: no message has a
place for it. No epsilon covers it, as it is computed from records without noise, so it is the owner's to keep.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crescendo.core.arrays import Vector
from crescendo.data.records import Records
from crescendo.errors import UsageError
from crescendo.federation.agreement import Agreement
from crescendo.logs import Log
from crescendo.objectives.score import Measured
from crescendo.whole_files import whole_file


@dataclass(frozen=True)
class LocalTest:
    """The test of one client: its file, and the share of the records that is held out, 0 for none."""

    path: Path
    share: float

    def check(self, agreed: Agreement, begun: bool, in_parts: bool) -> None:
        """Refuse another share than the one that the run began with: records were trained on by then that it would measure."""
        kept = self._read(agreed.federation, agreed.digest)
        before = None if kept is None else kept.get("share")
        if before is None and begun and self.share and not in_parts:
            before = 0.0
        if before is not None and before != self.share:
            said = f"--test {before:g}" if before else "no --test"
            raise UsageError(
                f"this client began with {said} in the federation {agreed.federation!r}, so that other records would be held out "
                f"now than those that were kept from training; start it with {said}"
            )

    def begin(self, agreed: Agreement) -> None:
        """Write down what is held out, before anything is trained."""
        if self.share and self._read(agreed.federation, agreed.digest) is None:
            self._write(agreed, None)

    def measure(self, agreed: Agreement, model: Vector, records: Records | None, log: Log) -> Measured | None:
        """Return what the last model is worth on the held-out records, and write it down; None where none are held out."""
        if records is None or not self.share:
            return None
        try:
            found = Measured.of(agreed.objective, model, records)
        except Exception as error:  # a user's own model may raise anything, and the run is over and sound
            log("not_measured", reason=f"the model failed with {type(error).__name__}")
            return None
        if found is None:
            log("not_measured", reason="no record is held out" if not len(records) else "the model has no such measure")
            return None
        log("measured", says=str(found), of="records held out here")
        self._write(agreed, found.plain())
        return found

    def found(self, federation: str, terms: str) -> Measured | None:
        """Return what an earlier start measured of that run."""
        kept = self._read(federation, terms)
        with suppress(ValueError):
            return None if kept is None else Measured.from_plain(kept.get("score"))
        return None

    def _write(self, agreed: Agreement, score: dict[str, Any] | None) -> None:
        known = {"federation": agreed.federation, "terms": agreed.digest, "share": self.share, "score": score}
        try:
            with whole_file(self.path) as file:
                file.write(json.dumps(known).encode() + b"\n")
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UsageError(f"what is held out cannot be written to {self.path}: {reason}") from None

    def _read(self, federation: str, terms: str) -> dict[str, Any] | None:
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            kept = json.loads(self.path.read_text(encoding="utf-8"))
            share = kept["share"]
            if (kept["federation"], kept["terms"]) == (federation, terms) and math.isfinite(share):
                return dict(kept)
        return None
