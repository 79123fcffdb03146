"""Events of dp-accounting and Opacus: what is read is what they mean, and what is written costs the same by their accountants."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import dp_accounting
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo_dp.accounting.epsilon import account
from crescendo_dp.errors import UsageError
from crescendo_dp.events import Counted, PoissonGaussian, tally, to_json
from crescendo_dp.interchange import FIELDS, MOST_RELEASES, WRITERS, Foreign

PAGE = Path(__file__).resolve().parents[2] / "docs" / "privacy.md"
GAUSSIAN = {"class_name": "GaussianDpEvent", "noise_multiplier": 2.0}
NO_EVENTS: tuple[Any, ...] = (None, 3, "x", {}, {"history": 3}, [3], [{}])
releases = st.lists(
    st.tuples(st.builds(PoissonGaussian, st.floats(0, 1), st.floats(0, 1e6)), st.integers(0, 10**6)), max_size=6
)


def dp_event(found: dict[str, Any]) -> Any:
    """As `docs/privacy.md` tells readers to do."""
    (code,) = re.findall(r"^def dp_event.*?(?=\n\n\n)", PAGE.read_text(), re.S | re.M)
    names: dict[str, Any] = {"dp_accounting": dp_accounting}
    exec(code, names)
    return names["dp_event"](found)


def sampled(rate: float, event: Any) -> dict[str, Any]:
    return {"class_name": "PoissonSampledDpEvent", "sampling_probability": rate, "event": event}


@pytest.mark.slow
@given(releases)
def test_what_is_written_is_read_as_the_same_rounds(events: list[tuple[PoissonGaussian, int]]) -> None:
    for written in (WRITERS["dp-accounting"](events), WRITERS["opacus"](events), WRITERS["opacus"](events)["history"]):
        assert Foreign.read(json.loads(json.dumps(written))).events == tally(events)
    if tally(events):
        assert Foreign.read(to_json(events)).format == "crescendo"


@settings(max_examples=20)
@given(releases)
def test_what_is_written_is_the_event_of_dp_accounting_in_each_way_that_json_can_hold_it(
    events: list[tuple[PoissonGaussian, int]],
) -> None:
    event = dp_event(WRITERS["dp-accounting"](events))
    assert isinstance(event, dp_accounting.ComposedDpEvent)
    named = event.to_named_tuple()
    assert {**named._asdict(), "events": []} == {**WRITERS["dp-accounting"](events), "events": []}
    assert Foreign.read(json.loads(json.dumps(named))).events == tally(events)
    assert dp_accounting.DpEvent.from_named_tuple(named) == event


@pytest.mark.slow
def test_their_accountants_find_the_epsilon_that_ours_finds() -> None:
    events = tally(
        [(PoissonGaussian(0.01, 1.1), 300), (PoissonGaussian(0.03, 1.4), 20), (PoissonGaussian(1.0, 9.0), 3)]
    )
    event, ours = dp_event(WRITERS["dp-accounting"](events)), account(events, 1e-5)
    by_pld = dp_accounting.pld.PLDAccountant().compose(event).get_epsilon(1e-5)
    by_rdp = dp_accounting.rdp.RdpAccountant().compose(event).get_epsilon(1e-5)
    assert by_pld == pytest.approx(ours.epsilon, rel=0.01)
    assert by_rdp == pytest.approx(ours.rdp_epsilon, rel=0.01)
    assert by_rdp > 1.1 * by_pld, "two methods, so that one does not stand in for the other"


def test_an_opacus_history_is_written_as_its_accountants_keep_it() -> None:
    """`IAccountant.state_dict`: a list of (noise_multiplier, sample_rate, num_steps), and the accountant's name."""
    assert WRITERS["opacus"]([(PoissonGaussian(0.01, 1.1), 300), (PoissonGaussian(0.02, 1.2), 1)]) == {
        "history": [[1.1, 0.01, 300], [1.2, 0.02, 1]],
        "mechanism": "prv",
    }


@pytest.mark.parametrize(
    ("event", "means"),
    [
        ({"class_name": "NoOpDpEvent"}, ()),
        ({"class_name": "NonPrivateDpEvent"}, ((PoissonGaussian(1, 0), 1),)),
        (GAUSSIAN, ((PoissonGaussian(1, 2), 1),)),
        ({"module_name": "dp_accounting.dp_event", **sampled(0.1, GAUSSIAN)}, ((PoissonGaussian(0.1, 2), 1),)),
        ([GAUSSIAN, GAUSSIAN], ((PoissonGaussian(1, 2), 2),)),
        (
            {"class_name": "SelfComposedDpEvent", "event": sampled(0.1, GAUSSIAN), "count": 7},
            ((PoissonGaussian(0.1, 2), 7),),
        ),
        (sampled(0.1, {"class_name": "NoOpDpEvent"}), ()),
        (sampled(0.1, {"class_name": "NonPrivateDpEvent"}), ((PoissonGaussian(0.1, 0), 1),)),
        (sampled(0.1, [*("m", "ComposedDpEvent"), [GAUSSIAN]]), ((PoissonGaussian(0.1, 2), 1),)),
    ],
)
def test_an_event_of_dp_accounting_means_what_it_says(event: Any, means: Counted) -> None:
    found = Foreign.read(event)
    assert (found.format, found.events) == ("dp-accounting", means)


@pytest.mark.slow
def test_several_gaussians_about_one_draw_are_one_of_less_noise() -> None:
    """As dp-accounting's RDP accountant counts them."""
    several = {"class_name": "SelfComposedDpEvent", "event": GAUSSIAN, "count": 4}
    together = {"class_name": "ComposedDpEvent", "events": [several, {**GAUSSIAN, "noise_multiplier": 1.0}]}
    ((event, count),) = Foreign.read(sampled(0.1, together)).events
    assert count == 1 and event.rate == 0.1
    assert event.sigma < 1 / math.sqrt(2) and event.sigma == pytest.approx(1 / math.sqrt(2), rel=1e-11)
    ours = account([event], 1e-5)
    theirs = dp_accounting.rdp.RdpAccountant().compose(dp_event(sampled(0.1, together))).get_epsilon(1e-5)
    assert ours.rdp_epsilon == pytest.approx(theirs, rel=1e-6)
    ((huge, _),) = Foreign.read(sampled(0.1, _composed(1e200, 4))).events
    ((tiny, _),) = Foreign.read(sampled(0.1, _composed(1e-200, 4))).events
    assert huge.sigma == pytest.approx(5e199) and tiny.sigma == pytest.approx(5e-201)


def _composed(sigma: float, count: int) -> dict[str, Any]:
    return {"class_name": "SelfComposedDpEvent", "event": {**GAUSSIAN, "noise_multiplier": sigma}, "count": count}


def test_a_draw_out_of_a_draw_has_the_product_of_the_rates_and_never_less() -> None:
    ((event, _),) = Foreign.read(sampled(0.1, sampled(0.3, GAUSSIAN))).events
    assert 0.1 * 0.3 < event.rate <= 0.03 * (1 + 1e-15)
    assert Foreign.read(sampled(1.0, sampled(0.3, GAUSSIAN))).events == ((PoissonGaussian(0.3, 2), 1),)


def test_the_fields_are_those_of_dp_accounting_in_its_order() -> None:
    for name, fields in FIELDS.items():
        kind = getattr(dp_accounting, name)
        assert tuple(field.name for field in kind.__attrs_attrs__) == fields


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"class_name": "LaplaceDpEvent", "noise_multiplier": 1.0}, "LaplaceDpEvent"),
        (["m", "ZCDpEvent", 1.0, 0.0], "ZCDpEvent"),
        (sampled(0.1, {"class_name": "TruncatedSubsampledGaussianDpEvent"}), "TruncatedSubsampledGaussianDpEvent"),
        ({"class_name": ["GaussianDpEvent"]}, "is not among the events"),
        ({"class_name": "GaussianDpEvent"}, "has noise_multiplier"),
        ({**GAUSSIAN, "sensitivity": 1}, "has noise_multiplier"),
        ({**GAUSSIAN, "noise_multiplier": -1}, "sigma must be"),
        ({**GAUSSIAN, "noise_multiplier": math.nan}, "sigma must be"),
        ({**GAUSSIAN, "noise_multiplier": "2"}, "sigma must be"),
        (["m", "GaussianDpEvent"], "has noise_multiplier"),
        (sampled(1.1, GAUSSIAN), "at most 1"),
        (sampled(0.1, 7), "a DpEvent is an object"),
        (sampled(0.1, _composed(1.0, -1)), "count is a whole number"),
        (
            sampled(0.1, {"class_name": "ComposedDpEvent", "events": [sampled(0.1, GAUSSIAN), GAUSSIAN]}),
            "share one draw",
        ),
        ({"class_name": "ComposedDpEvent", "events": 3}, "are a list"),
        ({"class_name": "SelfComposedDpEvent", "event": GAUSSIAN, "count": 1.0}, "count is a whole number"),
        ({"class_name": "SelfComposedDpEvent", "event": GAUSSIAN, "count": MOST_RELEASES + 1}, "are the most"),
        ({"history": [[1.0, 0.1]]}, "noise_multiplier, sample_rate and num_steps"),
        ([[1.0, 0.1, 2.5]], "num_steps is a whole number"),
        ([[1.0, 0.1, True]], "num_steps is a whole number"),
        ([[1.0, 1.5, 1]], "at most 1"),
        ([[10**400, 0.5, 1]], "sigma must be"),
        ([{"rate": 0.1, "sigma": 1, "n": 3}], "an event is an object"),
        *((found, "neither dp-accounting's events") for found in NO_EVENTS),
    ],
)
def test_what_cannot_be_accounted_for_is_refused_by_name(found: Any, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        Foreign.read(found)


def test_events_that_are_too_deep_are_refused() -> None:
    event: dict[str, Any] = GAUSSIAN
    for _ in range(200):
        event = sampled(1.0, event)
    with pytest.raises(UsageError, match="deep"):
        Foreign.read(event)
