"""Checkpoint of a round: what a client has made of the round in hand, so that a kill costs it seconds and not the round.

A checkpoint has the records that were drawn and what was computed from them, before any noise: it is as sensitive as the records.
So only its owner may read it from its first byte on, a newer one takes its place whole, and it goes when the round is over. It
has no noise and nothing that noise is drawn from: that happens once, when the round is released.

Nothing rests on a checkpoint but time. Whatever is doubtful about one (a checksum, another format, other records, another
ledger) is a reason to remove it; the round is then drawn anew, of which nothing was sent yet.
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
_COUNTERS = ("me", "round", "h", "k", "epoch", "yours", "sent_rounds")  # of the client, as it exports them


class RoundCheckpoint(NamedTuple):
    """A round between two of its slots.

    ``about`` says whose it is, ``starts`` how many processes have gone on from it. ``client`` is what a client exports: where the
    round began follows from it. ``made`` is what its worker exports.
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
        """Bytes on disk, but for a few."""
        return self._state().size

    def write(self, path: Path) -> None:
        """Put it on disk in the place of the one before; OSError, and that one stays, if it cannot be."""
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
        """The checkpoint at ``path``, None if there is none; DataError, which says why, if what is there cannot be used."""
        try:
            with path.open("rb") as file:
                found = State.read(file, CHECKPOINT)
            if found is None:
                raise DataError(_why_not(path))
            fields, arrays = found
            client = {name: fields[name] for name in _COUNTERS} | {"base": arrays["client.base"]}
            client["sent"] = [arrays[f"client.sent.{i}"] for i in client["sent_rounds"]]
            made = {name.removeprefix("made."): a for name, a in arrays.items() if name.startswith("made.")}
            whole = {"frame": None, "put_aside": None}  # the round begins where its client's own view is
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
        ) as error:  # its checksum is right and its words are not
            raise DataError(f"it is not what a checkpoint has in it: {type(error).__name__}") from error


def _why_not(path: Path) -> str:
    with path.open("rb") as file:
        number = CHECKPOINT.number_in(file.read(len(CHECKPOINT.opening)))
    if number is not None and number != CHECKPOINT.writes:
        return f"it has format {number} and this program knows {CHECKPOINT.writes}"
    return "it is damaged or was cut short"


def checkpoint_path(folder: Path, terms: str) -> Path:
    """Where a client's folder has the checkpoint of a federation, by the digest of its terms.

    >>> checkpoint_path(Path("alice"), "0123456789abcdef" * 4).name
    'round-0123456789abcdef.checkpoint'
    """
    return folder / f"round-{terms[:16]}{_SUFFIX}"


def remove_checkpoint(path: Path) -> None:
    """Remove a checkpoint and what a kill has left of one that was being written; OSError if one of them stays."""
    for there in (path, path.with_suffix(_DRAFT)):
        with suppress(FileNotFoundError):
            system.unlink(there)


def remove_stale(folder: Path, terms: Iterable[str]) -> list[tuple[Path, str]]:
    """Remove every checkpoint in a client's folder but those of federations with these terms, and every unfinished one.

    What could not be removed, and why.
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
