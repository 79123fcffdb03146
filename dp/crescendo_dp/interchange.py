"""Events of other libraries: dp-accounting's event trees and Opacus' histories, read and written as plain JSON.

dp-accounting has no file format of its own. This module reads its `DpEvent.to_named_tuple`, in the two ways in which JSON can
hold a named tuple: an object with ``class_name`` and the event's fields, or the bare list that ``json.dumps`` makes of it. Opacus
keeps ``(noise_multiplier, sample_rate, num_steps)`` in ``accountant.state_dict()["history"]``.

Writing keeps the same rounds, so that the accountants of those libraries can check this one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from crescendo_dp.errors import DataError, UsageError
from crescendo_dp.events import Counted, Event, PoissonGaussian, from_json, tally

_Format: TypeAlias = Literal["dp-accounting", "opacus", "crescendo"]

_MODULE = "dp_accounting.dp_event"
FIELDS = {  # the events that are understood, with their fields in the order of dp-accounting
    "NoOpDpEvent": (),
    "NonPrivateDpEvent": (),
    "GaussianDpEvent": ("noise_multiplier",),
    "PoissonSampledDpEvent": ("sampling_probability", "event"),
    "SelfComposedDpEvent": ("event", "count"),
    "ComposedDpEvent": ("events",),
}
MOST_RELEASES = 10**9  # that an accountant is asked about
_MOST_BYTES = 50_000_000  # of a file
_DEEPEST = 64  # events inside events
_OPACUS_ACCOUNTANT = "prv"  # whose state the history is written as: the one that Opacus makes unless told otherwise


@dataclass(frozen=True)
class Foreign:
    """The events of a file, and the library whose format it has."""

    format: _Format
    events: Counted

    @property
    def releases(self) -> int:
        return sum(count for _, count in self.events)

    @classmethod
    def read(cls, found: Any) -> Foreign:
        """Events out of parsed JSON, in whichever format they are.

        >>> Foreign.read({"history": [[1.1, 0.01, 300]], "mechanism": "rdp"})
        Foreign(format='opacus', events=((PoissonGaussian(rate=0.01, sigma=1.1), 300),))
        >>> Foreign.read([(1.1, 0.01, 300)]).format  # `accountant.history` as Opacus holds it
        'opacus'
        >>> Foreign.read(["dp_accounting.dp_event", "GaussianDpEvent", 2.0])
        Foreign(format='dp-accounting', events=((PoissonGaussian(rate=1.0, sigma=2.0), 1),))
        >>> Foreign.read([{"rate": 0.5, "sigma": 2.0}]).format
        'crescendo'
        """
        format = _format(found)
        if format == "dp-accounting":
            events = tally(_flat(found if _is_event(found) else ["", "ComposedDpEvent", found], 0))
        elif format == "opacus":
            events = tally(_step(item) for item in (found["history"] if isinstance(found, dict) else found))
        else:
            events = from_json(found)
        read = cls(format, events)
        _bearable(read.releases)
        return read

    @classmethod
    def of_file(cls, path: Path) -> Foreign:
        """Return the events of a JSON file, in any of the formats."""
        try:
            if path.stat().st_size > _MOST_BYTES:
                raise DataError(
                    f"{path} has more than {_MOST_BYTES:,} bytes; compose equal events into one with a count"
                )
            return cls.read(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise DataError(
                f"{path} does not exist; name a file of events, a run file or the folder of a run"
            ) from None
        except (ValueError, RecursionError):
            raise DataError(f"{path} is not JSON that can be read; write the events with json.dumps") from None
        except DataError:
            raise
        except UsageError as error:
            raise DataError(f"{path}: {error}") from None


def _format(found: Any) -> _Format:
    if isinstance(found, dict) and isinstance(found.get("history"), list):
        return "opacus"
    if _is_event(found):
        return "dp-accounting"
    if isinstance(found, list) and all(_is_event(item) for item in found) and found:
        return "dp-accounting"
    if isinstance(found, list) and all(isinstance(item, dict) and "rate" in item for item in found) and found:
        return "crescendo"
    if isinstance(found, list) and all(isinstance(item, list | tuple) for item in found):
        return "opacus"
    raise UsageError(
        "neither dp-accounting's events (objects with class_name), nor an Opacus history (lists of noise_multiplier, "
        "sample_rate and num_steps), nor Crescendo's events (objects with rate, sigma and count)"
    )


def _is_event(found: Any) -> bool:
    """An object with a class, or a named tuple as a list: module, class, fields."""
    if isinstance(found, dict):
        return "class_name" in found
    return isinstance(found, list) and len(found) >= 2 and isinstance(found[0], str) and isinstance(found[1], str)


# -- Opacus -----------------------------------------------------------------------------------------------------------


def _step(item: Any) -> tuple[Event, int]:
    if not isinstance(item, list | tuple) or len(item) != 3:
        raise UsageError(
            f"a step of an Opacus history is noise_multiplier, sample_rate and num_steps, got {_short(item)}"
        )
    noise, rate, steps = item
    return PoissonGaussian(rate, noise), _count("num_steps", steps)


def _to_opacus(events: Iterable[Event | tuple[Event, int]]) -> dict[str, Any]:
    """The state of an Opacus accountant: for ``PRVAccountant().load_state_dict``.

    >>> _to_opacus([PoissonGaussian(0.01, 1.1)] * 3)
    {'history': [[1.1, 0.01, 3]], 'mechanism': 'prv'}
    """
    history = [[event.sigma, event.rate, count] for event, count in _gaussians(events)]
    return {"history": history, "mechanism": _OPACUS_ACCOUNTANT}


# -- dp-accounting ----------------------------------------------------------------------------------------------------


def _flat(event: Any, depth: int) -> list[tuple[Event, int]]:
    """Return releases with their counts. Composition adds up, adaptive or not; only draws need care."""
    if depth > _DEEPEST:
        raise UsageError(f"events are at most {_DEEPEST} deep, one inside the other, and these are deeper")
    name, fields = _fields(event)
    if name == "NoOpDpEvent":
        return []
    if name == "NonPrivateDpEvent":
        return [(PoissonGaussian(1.0, 0.0), 1)]
    if name == "GaussianDpEvent":
        return [(PoissonGaussian(1.0, fields["noise_multiplier"]), 1)]
    if name == "SelfComposedDpEvent":
        times = _count("count", fields["count"])
        return [(one, _bearable(count * times)) for one, count in _flat(fields["event"], depth + 1)]
    if name == "ComposedDpEvent":
        if not isinstance(fields["events"], list):
            raise UsageError(f"the events of a ComposedDpEvent are a list, got {_short(fields['events'])}")
        return list(tally(one for inner in fields["events"] for one in _flat(inner, depth + 1)))
    return _drawn(PoissonGaussian(fields["sampling_probability"], 0.0).rate, tally(_flat(fields["event"], depth + 1)))


def _drawn(rate: float, inside: Counted) -> list[tuple[Event, int]]:
    """Return the releases about one draw of rate ``rate``.

    Gaussians about one draw are one Gaussian, 1/sigma^2 = sum of 1/sigma_j^2, and a draw out of a draw is one with the product
    of the rates; the roundings go to the side that costs more.
    """
    if not inside:
        return []
    if len(inside) == 1 and inside[0][1] == 1:
        (one, _) = inside[0]
        both = rate * one.rate
        exact = 1.0 in (rate, one.rate)
        return [(PoissonGaussian(both if exact else min(1.0, math.nextafter(both, 1.0)), one.sigma), 1)]
    if any(one.rate < 1 for one, _ in inside):
        raise UsageError(
            "a PoissonSampledDpEvent holds several releases with draws of their own, which share one draw: not supported"
        )
    least = min(one.sigma for one, _ in inside)
    if least == 0:
        return [(PoissonGaussian(rate, 0.0), 1)]
    together = math.fsum(count * (least / one.sigma) ** 2 for one, count in inside)
    return [(PoissonGaussian(rate, least / math.sqrt(together) * (1 - 1e-12)), 1)]


def _fields(event: Any) -> tuple[str, dict[str, Any]]:
    """Return the class of an event and its fields; refuse an unknown one by name."""
    if not _is_event(event):
        raise UsageError(f"a DpEvent is an object with class_name and its fields, got {_short(event)}")
    name = event["class_name"] if isinstance(event, dict) else event[1]
    if not isinstance(name, str) or name not in FIELDS:
        raise UsageError(f"{_short(name)} is not among the events that are accounted for here: {', '.join(FIELDS)}")
    wanted = FIELDS[name]
    if isinstance(event, dict):
        given = {key: value for key, value in event.items() if key not in ("module_name", "class_name")}
    elif len(event) == 2 + len(wanted):
        given = dict(zip(wanted, event[2:], strict=True))
    else:
        given = {}
    if set(given) != set(wanted):
        needs = " and ".join(wanted) or "no field"
        raise UsageError(f"a {name} has {needs}, got {_short(event)}")
    return name, given


def _to_dp_accounting(events: Iterable[Event | tuple[Event, int]]) -> dict[str, Any]:
    """A ComposedDpEvent as JSON: objects with ``class_name``, as ``to_named_tuple()._asdict()`` has them.

    >>> found = _to_dp_accounting([PoissonGaussian(0.01, 1.1)] * 3)
    >>> found["class_name"], found["events"][0]["count"], found["events"][0]["event"]["sampling_probability"]
    ('ComposedDpEvent', 3, 0.01)
    """
    composed = []
    for event, count in _gaussians(events):
        gaussian = _event("GaussianDpEvent", noise_multiplier=event.sigma)
        sampled = _event("PoissonSampledDpEvent", sampling_probability=event.rate, event=gaussian)
        composed.append(_event("SelfComposedDpEvent", event=gaussian if event.rate == 1 else sampled, count=count))
    return _event("ComposedDpEvent", events=composed)


def _gaussians(events: Iterable[Event | tuple[Event, int]]) -> Counted:
    counted = tally(events)
    for event, _ in counted:
        if not isinstance(event, PoissonGaussian):
            raise UsageError(
                f"the other libraries have no word for {type(event).__name__}; only Gaussians can be written"
            )
    return counted


def _event(name: str, **fields: Any) -> dict[str, Any]:
    return {"module_name": _MODULE, "class_name": name, **fields}


WRITERS: dict[str, Callable[[Iterable[Event | tuple[Event, int]]], dict[str, Any]]] = {
    "dp-accounting": _to_dp_accounting,
    "opacus": _to_opacus,
}


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"{name} is a whole number, 0 or more, got {_short(value)}")
    return _bearable(value)


def _bearable(releases: int) -> int:
    if releases > MOST_RELEASES:
        raise UsageError(f"{MOST_RELEASES:,} releases are the most that can be accounted for, and these are more")
    return releases


def _short(value: Any) -> str:
    """Return a value in few letters and without control characters.

    >>> _short({"a": "b" * 100})
    "{'a': 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb..."
    """
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:55]}..."
