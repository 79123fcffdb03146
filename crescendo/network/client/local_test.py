"""Local test: a client measures the last model on its own held-out records, on its own machine.

The client prints and logs the score and writes it in its own folder, after its last message to the server: no message has a field
for it. The score is computed from records without noise, so no epsilon covers it, and the owner should keep it private.
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
    """The test of one client: its file, and the share of held-out records, 0 for none."""

    path: Path
    share: float

    def check(self, agreed: Agreement, begun: bool, in_parts: bool) -> None:
        """Refuse a share that differs from the run's first one: the test would then use records that were trained on."""
        kept = self._read(agreed.federation, agreed.digest)
        before = None if kept is None else kept.get("share")
        if before is None and begun and self.share and not in_parts:
            before = 0.0
        if before is not None and before != self.share:
            said = f"--test {before:g}" if before else "no --test"
            raise UsageError(
                f"this client began with {said} in the federation {agreed.federation!r}, and another share would hold out "
                f"records that were trained on; start it with {said}"
            )

    def begin(self, agreed: Agreement) -> None:
        """Write down the share of held-out records before training begins."""
        if self.share and self._read(agreed.federation, agreed.digest) is None:
            self._write(agreed, None)

    def measure(self, agreed: Agreement, model: Vector, records: Records | None, log: Log) -> Measured | None:
        """Return the score of the last model on the held-out records, and write it down; None if there are none."""
        if records is None or not self.share:
            return None
        try:
            found = Measured.of(agreed.objective, model, records)
        except Exception as error:  # a user's model may raise any error, and the run is already complete
            log("not_measured", reason=f"the model failed with {type(error).__name__}")
            return None
        if found is None:
            log("not_measured", reason="no record is held out" if not len(records) else "the model has no such measure")
            return None
        log("measured", says=str(found), of="records held out here")
        self._write(agreed, found.plain())
        return found

    def found(self, federation: str, terms: str) -> Measured | None:
        """Return the score of that run from an earlier start."""
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
            raise UsageError(f"the test's share and score cannot be written to {self.path}: {reason}") from None

    def _read(self, federation: str, terms: str) -> dict[str, Any] | None:
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            kept = json.loads(self.path.read_text(encoding="utf-8"))
            share = kept["share"]
            if (kept["federation"], kept["terms"]) == (federation, terms) and math.isfinite(share):
                return dict(kept)
        return None
