"""Checkpoint of a client's current round, so that a kill costs seconds of work instead of the whole round.

A checkpoint holds the drawn records and intermediate results, before any noise, so it is as sensitive as the records.
Its file is private to its owner from the first byte, replaced atomically, and removed when the round is over. It
holds no noise and no random state for noise: noise is drawn once, when the round is released.

A checkpoint only saves time. Any doubt about one (a wrong checksum, another format, other records, another ledger) is
a reason to remove it; the round, of which nothing was sent, is then drawn again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from crescendo import system
from crescendo.core.arrays import Array
from crescendo.errors import DataError
from crescendo.storage.formats import CHECKPOINT
from crescendo.storage.state_file import State
from crescendo.whole_files import whole_file

_SUFFIX, _DRAFT = ".checkpoint", ".checkpoint-draft"
_COUNTERS = ("me", "round", "h", "k", "epoch", "yours", "sent_rounds")  # of the client's export


class RoundCheckpoint(NamedTuple):
    """A round between two of its slots.

    ``about`` identifies its owner, and ``starts`` counts the processes that have resumed from it. ``client`` is the
    client's export, which implies the start of the round; ``made`` is its worker's export.
    """

    about: dict[str, str]
    starts: int
    client: Mapping[str, Any]
    made: Mapping[str, Array]

    @property
    def round(self) -> int:
        return int(self.client["round"])

    @property
    def size(self) -> int:
        """The approximate number of bytes on disk."""
        return self._state().size

    def write(self, path: Path) -> None:
        """Replace the previous checkpoint on disk; on OSError the previous one stays."""
        with whole_file(path, _DRAFT) as file:
            self._state().write(file, CHECKPOINT)

    def _state(self) -> State:
        client, sent = self.client, zip(self.client["sent_rounds"], self.client["sent"], strict=True)
        arrays = {"client.base": client["base"], **{f"client.sent.{i}": delta for i, delta in sent}}
        arrays |= {f"made.{name}": array for name, array in self.made.items()}
        fields = {"about": self.about, "starts": self.starts, **{name: client[name] for name in _COUNTERS}}
        return State(fields, arrays)

    @classmethod
    def read(cls, path: Path) -> RoundCheckpoint | None:
        """Read the checkpoint at ``path``; None if there is no file, DataError with the reason if it is unusable."""
        try:
            with path.open("rb") as file:
                found = State.read(file, CHECKPOINT)
            if found is None:
                raise DataError(_why_not(path))
            fields, arrays = found
            client = {name: fields[name] for name in _COUNTERS} | {"base": arrays["client.base"]}
            client["sent"] = [arrays[f"client.sent.{i}"] for i in client["sent_rounds"]]
            made = {name.removeprefix("made."): a for name, a in arrays.items() if name.startswith("made.")}
            whole = {"frame": None, "put_aside": None}  # the round starts at its client's own view
            return cls(fields["about"], int(fields["starts"]), client | whole, made)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DataError(f"it cannot be read: {(error.strerror or 'unknown reason').lower()}") from error
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
        ) as error:  # valid checksum, invalid content
            raise DataError(f"it is not what a checkpoint has in it: {type(error).__name__}") from error


def _why_not(path: Path) -> str:
    with path.open("rb") as file:
        number = CHECKPOINT.number_in(file.read(len(CHECKPOINT.opening)))
    if number is not None and number != CHECKPOINT.writes:
        return f"it has format {number} and this program knows {CHECKPOINT.writes}"
    return "it is damaged or was cut short"


def checkpoint_path(folder: Path, terms: str) -> Path:
    """Return the path of a federation's checkpoint in a client's folder, from the digest of its terms.

    >>> checkpoint_path(Path("alice"), "0123456789abcdef" * 4).name
    'round-0123456789abcdef.checkpoint'
    """
    return folder / f"round-{terms[:16]}{_SUFFIX}"


def remove_checkpoint(path: Path) -> None:
    """Remove a checkpoint and the draft of an interrupted one; raise OSError if a file cannot be removed."""
    for there in (path, path.with_suffix(_DRAFT)):
        with suppress(FileNotFoundError):
            system.unlink(there)


def remove_stale(folder: Path, terms: Iterable[str]) -> list[tuple[Path, str]]:
    """Remove every unfinished checkpoint in a client's folder, and every other one except those of these terms.

    Return the files that could not be removed, with the reasons.
    """
    kept, stay = {checkpoint_path(folder, one) for one in terms}, []
    for found in [*folder.glob(f"round-*{_SUFFIX}"), *folder.glob(f"round-*{_DRAFT}")]:
        if found not in kept:
            try:
                system.unlink(found)
            except FileNotFoundError:
                pass
            except OSError as error:
                stay.append((found, (error.strerror or "unknown reason").lower()))
    return stay
