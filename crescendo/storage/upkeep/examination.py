"""Examination: what a check of a state found, one sentence for each damage."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Examination:
    """What was found at ``path``. ``damage`` says what is wrong and what that means; ``notes`` are no damage."""

    path: Path
    kind: str  # server, client or ledger
    damage: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        return not self.damage

    def to_json(self) -> dict[str, Any]:
        found = {"path": str(self.path), "kind": self.kind, "sound": self.sound}
        return {**found, "damage": self.damage, "notes": self.notes, **self.facts}
