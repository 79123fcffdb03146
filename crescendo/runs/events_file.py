"""Events in a JSON file, as other libraries write them, and what they cost."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from crescendo.errors import ConfigError, DataError, UsageError
from crescendo.privacy.accounting.accountant import Progress, Spent, account, check_delta
from crescendo.privacy.accounting.events import to_json
from crescendo.privacy.accounting.interchange import Foreign

SAYS = (
    "not certified by Crescendo: this is true if these events describe what was run, every record drawn independently and "
    "one record added or removed"
)
MOST_BYTES = 50_000_000


@dataclass(frozen=True)
class EventsStatement:
    """What the events of a file cost together."""

    what: str
    found: Foreign
    spent: Spent

    @classmethod
    def of_file(cls, path: Path, delta: float | None, progress: Progress | None = None) -> Self:
        """What the events of a JSON file cost at ``delta``."""
        if delta is None:
            raise ConfigError(
                f"events have no delta of their own; say at which one {path} is to be accounted with --delta"
            )
        check_delta(delta)
        found = events_of_file(path)
        return cls(str(path), found, account(found.events, delta, progress=progress))

    def to_json(self) -> dict[str, Any]:
        spent = self.spent.to_json()
        return {
            "what": self.what,
            "format": self.found.format,
            "certified": False,
            "says": SAYS,
            "releases": self.found.releases,
            **spent,
            "events": to_json(self.found.events),
        }


def events_of_file(path: Path) -> Foreign:
    """The events of a JSON file, in whichever of the formats it is."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise DataError(
                f"{path} has more than {MOST_BYTES:,} bytes; compose events that are alike into one with a count"
            )
        return Foreign.read(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; name a file of events, a run file or the folder of a run") from None
    except (ValueError, RecursionError):
        raise DataError(f"{path} is not JSON that can be read; write the events with json.dumps") from None
    except DataError:
        raise
    except UsageError as error:
        raise DataError(f"{path}: {error}") from None
