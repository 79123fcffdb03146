"""Two thousand terms texts, changed at random; `python -m tests.federation.fuzz_terms 100000` tries more."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from crescendo.errors import CrescendoError, Refused
from crescendo.federation.agreement import LONGEST, build_terms
from tests.federation import fuzz_terms
from tests.federation.fuzz_terms import POLICY, Found, fuzz, look_at
from tests.federation.terms_texts import canonical, sound
from tests.soak import times


@pytest.mark.slow
def test_every_text_is_terms_or_one_sentence_and_noise_hides_what_accepted_ones_release() -> None:
    found = fuzz(2_000, seed=0)
    assert found.outcomes["accepted with privacy"] > 100 and found.releases > 500, str(found)


@pytest.mark.soak
def test_a_hundred_thousand_texts() -> None:
    fuzz(times(100_000), seed=1)


def private(mechanism: str = "minibatch") -> dict[str, Any]:
    wanted = (json.loads(text) for text in sound())
    raw: dict[str, Any] = next(raw for raw in wanted if raw["privacy"] and raw["privacy"]["mechanism"] == mechanism)
    return raw


FOUND: dict[str, tuple[tuple[str, ...], Any]] = {
    "norm_bound whose square has no float": (("privacy", "norm_bound"), 1e200),
    "clip whose square has no float": (("privacy", "clip"), 1e200),
    "a step at the end of the floats": (("schedule", "steps", "eta0"), 1e308),
    "a step without a bit": (("schedule", "steps", "eta0"), 1e-323),
    "a norm_bound that leaves no room for the intercept": (("privacy", "norm_bound"), 0.5),
    "a shrink that enlarges": (("objective", "l2"), 2.1434e3),
    "a whole number without a float": (("clients", "weights"), [10**400, 1, 1, 1, 1]),
    "more clients than weights": (("clients", "weights"), [1.0]),
    "a model that does not fit into memory": (("objective", "features"), 10**12),
    "more slots than can be laid out": (("schedule", "sizes", "scale"), 1e12),
    "records that are no list": (("privacy", "records"), 80),
    "labels that are none": (("objective", "classes"), [[1], {}]),
    "an intercept that is neither true nor false": (("objective", "intercept"), "no"),
    "a feature count in letters": (("objective", "features"), "4"),
    "a name that steers a terminal": (("clients", "names"), ["a\x1b[2J", "b", "c", "d", "e"]),
    "a federation without a name": (("federation",), " "),
    "a key of a megabyte": (("schedule", "x" * 1_000_000), 1),
    "a key that steers a terminal": (("privacy", "\x1b[2J"), 1),
    "a section too many": (("extra",), {}),
    "options that turn what is read around": (("objective", "options"), "\u202e"),
    "noise without a number": (("privacy", "sigma"), None),
    "noise of no rounds": (("privacy", "sigma"), []),
    "clips of no layers": (("privacy", "clip"), []),
    "layers that are not the model's": (("privacy", "clip"), [[3, 0.5], [1, 1e-200]]),
    "more layers than can be looked at": (("privacy", "clip"), [[1, 0.5]] * 100_000),
}


@pytest.mark.parametrize("what", FOUND)
def test_what_the_fuzz_found_is_refused_in_a_sentence(what: str) -> None:
    (*path, last), value = FOUND[what]
    raw = holder = private()
    for name in path:
        holder = holder[name]
    holder[last] = value
    with pytest.raises(CrescendoError) as refused:
        POLICY.check_terms(build_terms(canonical(raw)))
    said = str(refused.value)
    assert said.isprintable() and 10 < len(said) < LONGEST and not said.startswith(fuzz_terms.NOT_FORESEEN), said


def test_a_delay_of_which_nothing_is_known_is_not_looked_at_for_ever() -> None:
    """Its steps are lost in the rounding of its offset, so that no label shows that it rises too fast."""
    raw = private()
    raw["privacy"] = None
    raw["schedule"]["sizes"]["power"] = 9.0
    raw["schedule"]["wait"] = {"tau": {"kind": "power", "offset": 2**63, "power": 0.5, "scale": 5.0, "shift": 0.0}}
    with pytest.raises(Refused, match="can be checked label by label for 67,108,864 at most"):
        build_terms(canonical(raw))


def test_a_mistake_of_ours_is_a_sentence_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody thought of must not end a client; the fuzz fails on the sentence that says so."""

    def fails(*words: Any) -> None:
        raise ZeroDivisionError("/home/ann")

    monkeypatch.setattr("crescendo.federation.agreement._build", fails)
    with pytest.raises(Refused, match=rf"{fuzz_terms.NOT_FORESEEN} \(ZeroDivisionError\)"):
        build_terms(sound()[0])


def test_the_fuzz_sees_noise_that_is_absorbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fuzz that cannot fail shows nothing: a model so long that float64 has no room for the noise beside it."""
    certify = build_terms

    def careless(text: str) -> Any:
        from dataclasses import replace

        agreed = certify(text)
        made = agreed.certificate
        assert made is not None
        return replace(agreed, certificate=replace(made, model_bound=made.model_bound * 2.0**60))

    monkeypatch.setattr(fuzz_terms, "build_terms", careless)
    with pytest.raises(AssertionError, match="steps of the grid"):
        look_at(canonical(private("local")), Random(0), Found())
