"""Terms: one text, from which both sides build the same things, and nothing that a peer writes can break this side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo.config.loading import read
from crescendo.config.to_terms import terms_text
from crescendo.errors import ConfigError, CrescendoError, Refused
from crescendo.federation.agreement import build_terms
from crescendo.federation.policy import Policy
from crescendo.runs.simulate import simulate
from tests.conformance.cases import PRIVATE, case

TEXT = terms_text(read(case()))
PRIVATELY = case(privacy={"mechanism": "minibatch", **PRIVATE})


def test_both_sides_build_the_terms_that_a_simulation_has() -> None:
    result = simulate(case())
    assert build_terms(TEXT).terms == result.prepared.terms
    assert build_terms(TEXT).objective.size == result.prepared.objective.size


@pytest.mark.slow
def test_privacy_is_settled_before_the_terms_are_written() -> None:
    stated = {"mechanism": "local", "epsilon": 2.0, **{k: v for k, v in PRIVATE.items() if k != "sigma"}}
    agreed = build_terms(terms_text(read(case(privacy=stated))))
    assert agreed.certificate is not None and agreed.certificate.sigma.least > 0
    assert json.loads(agreed.text)["privacy"]["records"] == [80] * 5


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"serve": {"federation": None}}, "serve.federation is missing"),
        ({"serve": {"features": None}}, "serve.features is missing"),
        ({"clients": {"weights": "size"}}, "needs serve.records"),
        ({"objective": {"l2": "1/N"}}, "needs serve.records"),
        ({"data": {"classes": [1, 2, 3]}}, "data.classes has 3 labels, and logistic regression needs exactly two"),
        ({"serve": {"late": ["nobody"]}}, "not among the clients"),
        ({"schedule": {"rounds": 10**9}}, "at most 1000000 rounds"),
        ({"schedule": {"blocks": 99}}, "at most the model's 5 numbers"),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_sentence(changes: dict[str, Any], reason: str) -> None:
    raw = case(**changes)
    raw = {section: {k: v for k, v in values.items() if v is not None} for section, values in raw.items()}
    with pytest.raises((ConfigError, Refused), match=reason):
        terms_text(read(raw))


def test_declared_records_give_weights_and_l2() -> None:
    raw = case(clients={"weights": "size"}, objective={"l2": "1/N"}, serve={"records": [1, 1, 2, 2, 4]})
    said = json.loads(terms_text(read(raw)))
    assert said["clients"]["weights"] == [0.1, 0.1, 0.2, 0.2, 0.4] and said["objective"]["l2"] == 0.1


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_a_server_writes_as_terms_is_terms_or_one_sentence(data: st.DataObject) -> None:
    raw = json.loads(TEXT)
    section = data.draw(st.sampled_from(sorted(raw)))
    junk = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(),
        st.text(max_size=5),
        st.lists(st.integers()),
    )
    if isinstance(raw[section], dict):
        raw[section][data.draw(st.sampled_from(sorted(raw[section])))] = data.draw(junk)
    else:
        raw[section] = data.draw(junk)
    try:
        text = json.dumps(raw, sort_keys=True, separators=(",", ":"))
        build_terms(text)
    except CrescendoError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "{" * 5000, TEXT.replace(",", ", "), "x" * (4 << 20)])
def test_a_text_that_is_no_terms_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        build_terms(text)


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ({"mechanisms": ["minibatch"], "epsilon": 1.0, "delta": 1e-6}, 'mechanism = "none"'),
        ({"mechanisms": ["none"], "federations": ["another"]}, 'federation "conformance"'),
        ({"mechanisms": ["none"], "max_rounds": 5}, "6 rounds"),
        ({"mechanisms": ["none"], "objectives": ["lenet"]}, "objective.kind"),
    ],
)
def test_a_policy_refuses_what_it_does_not_allow(policy: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        Policy.model_validate(policy).check_terms(build_terms(TEXT))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "reason"), [({"min_sigma": 9.0}, "sigma = 2"), ({"max_delta": 1e-9}, "delta = 1e-06")]
)
def test_a_policy_sets_bounds_on_the_noise(policy: dict[str, Any], reason: str) -> None:
    allowed = Policy.model_validate({"epsilon": 10.0, "delta": 1e-3, **policy})
    with pytest.raises(Refused, match=reason):
        allowed.check_terms(build_terms(terms_text(read(PRIVATELY))))


def test_a_policy_that_names_a_server_takes_no_other() -> None:
    policy = Policy.model_validate({"mechanisms": ["none"], "server": "ab" * 32})
    for shown in (None, b"another"):
        with pytest.raises(Refused, match="server"):
            policy.check_server(shown)


def test_a_policy_means_the_same_ledger_from_wherever_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "policy.toml").write_text('epsilon = 1.0\ndelta = 1e-6\nledger = "ours.sqlite"\n')
    for folder in (tmp_path, tmp_path / "other"):
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        assert Policy.read(tmp_path / "policy.toml").ledger == str(tmp_path / "ours.sqlite")
    monkeypatch.chdir(tmp_path)
    assert Policy.read(Path("policy.toml")).ledger == str(tmp_path / "ours.sqlite")
