"""Examination: the findings of a check of stored state, one sentence per damage."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Examination:
    """The findings at ``path``. ``damage`` lists faults and their consequences; ``notes`` are harmless."""

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
