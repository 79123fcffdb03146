from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import crescendo
from crescendo.audit import Finding, Report
from crescendo.cli.main import app
from crescendo.cli.show.show_privacy import _about_shift
from crescendo.config.plan_file import PlanFile
from crescendo.errors import UsageError
from crescendo.privacy.guarantee import Guarantee
from crescendo.runs.simulate import simulate
from crescendo.runs.statements import ClientAccount
from crescendo.storage.ledger.open_ledger import open_ledger
from crescendo_dp.accounting.epsilon import account
from crescendo_dp.events import PoissonGaussian, from_json, tally
from crescendo_dp.ledger.budget import Budget
from crescendo_dp.paper.envelope import _envelope, by_theorems
from crescendo_dp.paper.theorems import theorem_one

runner = CliRunner()
SMALL_PLAN = ["--epsilon", "2", "--delta", "1e-5", "--records", "100", "--gradients", "60", "--max-share", "0.1"]
WHOSE = {"data": {"source": "synthetic:rows=200,features=3"}, "clients": {"count": 2}}
PRIVATE: dict[str, Any] = {
    **WHOSE,
    "schedule": {
        "rounds": 4,
        "sizes": {"kind": "power", "scale": 2, "per_client": True},
        "steps": {"kind": "constant", "eta": 0.01},
    },
    "privacy": {"mechanism": "minibatch", "delta": 1e-5, "sigma": 2.0, "clip": 1.0, "records": 80},
}


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("private.toml").write_text(tomli_w.dumps(PRIVATE))
    Path("plain.toml").write_text(tomli_w.dumps({**PRIVATE, "privacy": {}}))


def shown(*arguments: str) -> str:
    found = runner.invoke(app, arguments)
    assert found.exit_code == 0, found.output
    return found.stdout


def json_of(*arguments: str, code: int = 0) -> dict[str, Any]:
    found = runner.invoke(app, [*arguments, "--json"])
    assert found.exit_code == code, found.output
    assert found.stdout.count("\n") == 1 and found.stderr == ""
    parsed = json.loads(found.stdout)
    assert isinstance(parsed, dict)
    return parsed


@pytest.mark.parametrize("command", ["plan", "account", "audit"])
def test_every_help_ends_with_a_line_to_paste(command: str) -> None:
    lines = runner.invoke(app, [command, "--help"]).stdout.strip().splitlines()
    assert re.fullmatch(rf"\s*Example: crescendo {command} .*", lines[-1])


@pytest.mark.parametrize("served", [False, True], ids=["simulated", "served"])
def test_schedule_shows_the_noise_and_what_it_costs(served: bool) -> None:
    file, names = "private.toml", ["client 0", "client 1"]
    if served:
        file, names = "served.toml", ["alice", "bob"]
        whose = {"serve": {"federation": "trial", "features": 3, "names": names}, "clients": {"weights": "uniform"}}
        Path(file).write_text(tomli_w.dumps(PRIVATE | {"data": {"classes": [0, 1]}} | whose))
    costs, accounted = json_of("schedule", file)["privacy"], json_of("account", "private.toml")
    assert (costs["sigma"], costs["delta"], costs["mechanism"]) == (2.0, 1e-5, "minibatch")
    assert costs["epsilon"] == pytest.approx(accounted["epsilon"])
    assert [(one["name"], one["records"]) for one in costs["clients"]] == [(name, 80) for name in names]
    text = shown("schedule", file)
    assert "sigma 2 (minibatch)" in text and f"costs epsilon {costs['epsilon']:.4f} at delta 1e-05" in text
    assert json_of("schedule", "plain.toml")["privacy"] is None


# -- plan -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_plan_shows_the_plan_its_family_the_curve_and_the_notes() -> None:
    text = shown("plan", *SMALL_PLAN, "--first-size", "2")
    for words in ("sigma", "aggregated noise", "2, then even", "power 0.5", "chosen", "share"):
        assert words in text
    for note in (
        "Chosen for the least aggregated noise; next is power 0.25",
        "fewer and larger rounds lower the aggregated noise",
        "small start",
    ):
        assert note in text
    assert max(map(len, text.splitlines()[:30])) <= 80
    assert "constant sizes as large as allowed are best" in shown("plan", *SMALL_PLAN)


@pytest.mark.slow
def test_plan_as_json_has_everything_and_costs_no_more_than_asked() -> None:
    found = json_of("plan", *SMALL_PLAN, "--first-size", "2", "--power", "1")
    assert {"shape", "q", "m", "p", "first", "last"} == found["sizes"].keys()
    assert [row["name"] for row in found["family"] if row["chosen"]] == ["power 1"]
    assert found["sizes"]["first"] == 2 and found["sizes"]["p"] == 1
    assert found["aggregated_noise"] == pytest.approx(found["rounds"] ** 0.5 * found["sigma"])
    assert found["method"] == "tight" and {"constant", "paper"} == found["compared_to"].keys()
    assert 1.98 <= found["epsilon"] <= 2 == account(from_json(found["events"]), 1e-5).epsilon // 0.99
    assert sum(size * rounds for size, rounds in found["staircase"]) == 60


@pytest.mark.slow
def test_a_written_plan_runs_once_it_is_said_whose_data_it_is() -> None:
    found = json_of("plan", *SMALL_PLAN, "--write", "planned.toml")
    assert found["written"] == "planned.toml"
    with Path("planned.toml").open("a") as file:
        file.write(tomli_w.dumps(WHOSE))
    ran = json_of("run", "planned.toml", "--out", "here")
    assert (ran["rounds"], ran["gradients"]) == (found["rounds"], 2 * found["gradients"])
    assert ran["privacy"]["epsilon"] == pytest.approx(found["epsilon"], rel=1e-9)
    assert ran["privacy"]["epsilon"] <= ran["privacy"]["stated_epsilon"] == 2
    spent = json_of("account", "here")
    assert [client["events"] for client in spent["clients"]] == [found["events"]] * 2
    again = runner.invoke(app, ["plan", *SMALL_PLAN, "--write", "planned.toml"])
    assert again.exit_code == 1 and "exists already" in again.stderr


def written(plan: crescendo.Plan, stated: float) -> dict[str, Any]:
    path = Path("written.toml")
    path.unlink(missing_ok=True)
    PlanFile(path).write(plan, stated)
    return tomllib.loads(path.read_text())


@pytest.mark.slow
@settings(deadline=None, max_examples=12)
@given(st.data())
def test_any_plan_that_is_written_is_accepted_and_never_spends_more_than_stated(data: st.DataObject) -> None:
    records, clients = data.draw(st.integers(100, 400), "records"), data.draw(st.integers(1, 4), "clients")
    gradients = data.draw(st.integers(10, 300), "gradients")
    stated, delta = data.draw(st.floats(0.3, 8), "epsilon"), data.draw(st.sampled_from([1e-3, 1e-5, 1e-8]), "delta")
    first, power = data.draw(st.none() | st.integers(1, 10), "first"), data.draw(st.none() | st.floats(0, 2), "power")
    by_round = data.draw(st.booleans(), "by round")
    asked = (stated, delta, records, gradients, first, power)
    try:
        plan = crescendo.plan(*asked, max_share=0.2, sigma_by_round=by_round, compare=False)
    except UsageError:
        assume(False)
    raw = written(plan, stated)
    source = f"synthetic:rows={records * clients},features=3"
    result = simulate({**raw, "data": {"source": source}, "clients": {"count": clients}})
    privacy = result.prepared.privacy
    assert isinstance(privacy, Guarantee) and privacy.stated == stated and result.rounds == plan.rounds
    for c in range(clients):
        events = tally(privacy.certificate.events(c))
        assert events == plan.events
        assert account(events, delta).epsilon <= stated


@pytest.mark.slow
def test_a_written_plan_with_less_noise_is_refused() -> None:
    plan = crescendo.plan(2, 1e-5, 100, 60, max_share=0.1, compare=False)
    raw = {**written(plan, 2), **WHOSE}
    raw["privacy"]["sigma"] *= 0.97
    Path("less.toml").write_text(tomli_w.dumps(raw))
    found = runner.invoke(app, ["run", "less.toml"])
    assert found.exit_code == 1 and "is less than this run costs" in found.stderr


# -- account ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_account_says_the_same_of_a_run_file_and_of_its_run() -> None:
    before = json_of("account", "private.toml")
    simulate("private.toml", out=Path("here"))
    after = json_of("account", "here")
    assert (after.pop("what"), before.pop("what")) == ("here", "private.toml")
    assert (after.pop("simulated"), before.pop("simulated")) == (True, None)
    assert "the run was simulated" in after.pop("says") and "guarantees this in a real federation" in before.pop("says")
    assert before == after and before["mechanism"] == "minibatch" and len(before["clients"]) == 2
    one = before["clients"][0]
    assert one["epsilon"] == one["pld_epsilon"] < one["rdp_epsilon"] and before["epsilon"] == one["epsilon"]
    assert one["theorems"][0]["theorem"] == "thm1" and len(one["theorems"]) == 2
    text = shown("account", "here")
    assert ", simulated\n" in text and "protects nobody" in text
    assert "client 1" in text and f"{one['epsilon']:.4g}" in text and f"{one['rdp_epsilon']:.4g}" in text


def test_account_takes_another_delta_and_a_tiny_one_is_no_cliff() -> None:
    loose, tiny = (json_of("account", "private.toml", "--delta", delta) for delta in ("1e-3", "1e-14"))
    assert loose["epsilon"] < json_of("account", "private.toml")["epsilon"] < tiny["epsilon"]
    assert tiny["clients"][0]["method"] == "pld" and tiny["epsilon"] < 0.95 * tiny["clients"][0]["rdp_epsilon"]


def test_account_says_why_a_theorem_does_not_apply() -> None:
    text = shown("account", "private.toml", "--set", "privacy.sigma=0.9")
    assert re.search(r"Theorem 1, .*does not apply: needs sigma >= 1, has 0.9\.", text)
    assert re.search(r"main theorem, .*does not apply: needs ", text)
    assert "The plan guarantees this in a real federation" in text


@pytest.mark.parametrize("what", ["plain.toml", "here"])
def test_account_of_a_run_without_privacy_is_one_sentence(what: str) -> None:
    Path("here").mkdir()
    Path("here/privacy.json").write_text("null\n")
    text = shown("account", what)
    assert text.count("\n") == 1 and text.startswith(f"{what}: no privacy is claimed")
    found = json_of("account", what)
    assert (found["mechanism"], found["epsilon"], found["clients"]) == ("none", None, [])


def test_a_federation_s_name_is_whole_on_a_narrow_terminal_and_can_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    plan, name = [PoissonGaussian(0.1, 2.0)] * 5, "readmission-2026-" + "0123456789" * 7
    with open_ledger("my.ledger", Budget(3.0, 1e-5), dataset="flights") as ledger:
        ledger.sign(name, "terms", "AA", plan, 1e-6)
    row = next(line for line in shown("account", "--ledger", "my.ledger").splitlines() if name in line)
    assert row.split()[-1] == "open"


def test_account_shows_what_a_ledger_has_spent_and_left() -> None:
    plan = [PoissonGaussian(0.1, 2.0)] * 5
    with open_ledger("my.ledger", Budget(3.0, 1e-5), dataset="flights") as ledger:
        assert "No federation has been signed off yet" in shown("account", "--ledger", "my.ledger")
        ledger.sign("spring", "terms", "AA", plan, 1e-6)
        ledger.release("spring", 0, plan[0], b"bytes")
        text = shown("account", "--ledger", "my.ledger")
        found = json_of("account", "--ledger", "my.ledger")
    for words in ("Ledger of flights", "budget", "spent", "promised", "left", "spring", "AA", "open"):
        assert words in text
    assert "less theirs and less 5e-06, reserved" in text and "each federation's at the delta of its terms" in text
    assert found["left"]["delta"] == pytest.approx(1e-5 - 1e-6 - 5e-6), "as it says"
    assert 0 < found["spent"]["epsilon"] < found["promised"]["epsilon"] < found["epsilon"] == 3
    assert found["left"]["epsilon"] == pytest.approx(3 - found["promised"]["epsilon"])
    assert (found["federations"][0]["charged"], found["federations"][0]["rounds"]) == (1, 5)


def test_a_promise_can_be_taken_back() -> None:
    plan = [PoissonGaussian(0.1, 2.0)] * 5
    with open_ledger("my.ledger", Budget(3.0, 1e-5), dataset="flights") as ledger:
        ledger.sign("spring", "terms", "AA", plan, 1e-6)
        ledger.sign("summer", "terms", "AA", plan, 1e-6)
        ledger.release("summer", 0, plan[0], b"bytes")
        busy = runner.invoke(app, ["account", "--ledger", "my.ledger", "--close", "spring"])
        assert busy.exit_code == 1 and "in use by another process" in busy.stderr
    before = json_of("account", "--ledger", "my.ledger")["left"]
    found = json_of("account", "--ledger", "my.ledger", "--close", "spring")
    assert (found["closed"], found["charged"], found["left_before"]) == ("spring", 0, before)
    assert found["left"]["epsilon"] > before["epsilon"] and found["left"]["delta"] == pytest.approx(4e-6)
    text = shown("account", "--ledger", "my.ledger", "--close", "summer")
    assert "1 of its 5 rounds were charged and stay spent" in text and "closed" in text
    after = json_of("account", "--ledger", "my.ledger")
    assert after["left"]["delta"] == found["left"]["delta"], "after the first charge a sum gives nothing back"
    for words, hint in [
        (["--ledger", "my.ledger", "--close", "summer"], "is already closed"),
        (["--ledger", "my.ledger", "--close", "sumer"], "did you mean 'summer'?"),
        (["--ledger", "my.ledger", "--close", "x", "--delta", "1e-6"], "goes with --ledger FILE and no other option"),
        (["private.toml", "--close", "x"], "goes with --ledger FILE and no other option"),
        (["--ledger", "nope", "--close", "x"], "there is no ledger at nope"),
    ]:
        refused = runner.invoke(app, ["account", *words])
        assert refused.exit_code == 1 and hint in refused.stderr and refused.stderr.count("\n") == 1, refused.output


def test_closing_after_a_charge_returns_the_other_rounds_by_the_renyi_order() -> None:
    plan = [PoissonGaussian(1.0, 20.0)] * 40
    with open_ledger("my.ledger", Budget(3.0, 1e-5)) as ledger:
        for federation in ("spring", "summer"):
            ledger.sign(federation, "terms", "AA", plan, 4e-6)
            ledger.release(federation, 0, plan[0], b"bytes")
        assert ledger.summary()["promised"]["way"] == "orders"
    found = json_of("account", "--ledger", "my.ledger", "--close", "summer")
    assert found["left"]["epsilon"] > found["left_before"]["epsilon"] and "Renyi order" in found["says"]


def test_a_ledger_that_is_not_there_is_not_to_be_begun_here() -> None:
    Path("state").mkdir()
    for name, hint in (("nope", "a client has it in its state folder"), ("state", "state/ledger.sqlite")):
        found = runner.invoke(app, ["account", "--ledger", name])
        assert found.exit_code == 1 and hint in found.stderr and "budget" not in found.stderr


rates = st.lists(st.tuples(st.floats(1e-4, 0.3), st.integers(1, 30)), min_size=1, max_size=8)


@settings(deadline=None, max_examples=20)
@given(rates)
def test_the_curve_that_the_main_theorem_is_applied_to_lies_above_every_rate(drawn: list[tuple[float, int]]) -> None:
    events = tally((PoissonGaussian(rate, 2.0), count) for rate, count in drawn)
    curve, i = _envelope(events), 0
    for event, count in events:
        for _ in range(count):
            assert event.rate <= curve.q * (i + curve.m) ** curve.p * (1 + 1e-9)
            i += 1
    assert i == curve.rounds


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(rates, st.floats(0.8, 12), st.sampled_from([1e-4, 1e-7]))
def test_no_theorem_proves_less_than_the_tight_accountant(
    drawn: list[tuple[float, int]], sigma: float, delta: float
) -> None:
    events = tally((PoissonGaussian(rate, sigma), count) for rate, count in drawn)
    tight = account(events, delta)
    for verdict in by_theorems(events, 10_000, delta):
        assert verdict.applies == verdict.why.startswith("applies")
        assert verdict.epsilon is None or verdict.epsilon >= tight.epsilon - tight.error


def test_the_theorems_are_asked_about_the_least_noise_and_answer_as_they_do_by_name() -> None:
    rates = [(1.2e-4 * (i + 16 / 1.2), 1) for i in range(192)]
    first, main = by_theorems(tally((PoissonGaussian(rate, 9.0), n) for rate, n in rates), 10_000, 5.5e-8)
    assert first == theorem_one(rates, 9.0, 5.5e-8)
    assert main.theorem == "thm-mainp" and main.epsilon == pytest.approx(0.8358, rel=1e-3)
    mixed = tally((PoissonGaussian(rate, 9.0 + (rate < 0.01)), n) for rate, n in rates)
    assert by_theorems(mixed, 10_000, 5.5e-8)[0].epsilon == first.epsilon


def test_of_many_plans_the_costliest_is_accounted_tightly_and_the_others_never_too_low() -> None:
    plans = [((PoissonGaussian(0.01 * (j + 1), 2.0), 3),) for j in range(10)]
    found = ClientAccount.of_all([(f"client {j}", 100, plan) for j, plan in enumerate(plans)], 1e-5)
    assert [one.spent.method for one in found] == ["rdp"] * 9 + ["pld"]
    assert [len(one.theorems) for one in found] == [0] * 9 + [2]
    assert found[0].spent.epsilon >= account(plans[0], 1e-5).epsilon


# -- audit ------------------------------------------------------------------------------------------------------------

REPORT: dict[str, Any] = {
    "mechanism": "minibatch",
    "client": 0,
    "claimed": 1.0,
    "delta": 1e-5,
    "confidence": 0.99,
    "lower": 0.5,
    "lower_shift": 0.5,
    "lower_threshold": 0.1,
    "claimed_attacked": 0.6,
    "worst_ratio": 1.0,
    "carried_ratio": 0.0,
    "noise_ratio": 1.001,
    "shift_ratio": 0.99,
    "shift_error": 0.01,
    "tries": 200,
    "runs": 400,
}


@pytest.mark.parametrize(
    ("findings", "code", "verdict"),
    [((), 0, "passed"), ((Finding("epsilon", "epsilon is 2 or more and 1 is claimed"),), 1, "failed")],
)
def test_the_exit_code_of_audit_is_its_verdict(
    findings: tuple[Finding, ...], code: int, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = Report(**REPORT, findings=findings)
    monkeypatch.setattr("crescendo.runs.auditing.audit", lambda *_, **__: report)
    assert json_of("audit", "private.toml", code=code)["verdict"] == verdict
    found = runner.invoke(app, ["audit", "private.toml"])
    assert found.exit_code == code and verdict in found.stdout.lower()
    for words in ("claimed epsilon", "99% confidence", "worst sensitivity ratio", "measured / certified noise"):
        assert words in found.stdout
    assert all(finding.says in found.stdout for finding in findings)


def test_a_shift_above_one_that_chance_explains_is_called_that() -> None:
    chance = {**REPORT, "shift_ratio": 1.2189, "shift_error": 0.15}
    words = "standard error 0.15; a sound mechanism's true value is at most 1"
    passed, failed = (_about_shift(Report(**chance, findings=f)) for f in ((), (Finding("shift", "too far"),)))
    assert passed.endswith(f"{words}, and 1.5 standard errors above 1 do not contradict that") and failed.endswith(
        words
    )


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["minibatch", "local"])
def test_audit_passes_on_the_mechanisms_as_they_are(mechanism: str) -> None:
    changes = [f"privacy.mechanism={mechanism}", "privacy.norm_bound=3", "run.wire=float64"]
    found = json_of("audit", "private.toml", "--runs", "100", *(part for c in changes for part in ("--set", c)))
    assert (found["verdict"], found["mechanism"], found["findings"]) == ("passed", mechanism, [])
    assert found["lower"] <= found["claimed"] and found["worst_ratio"] > 0.99


def test_audit_names_the_client_as_account_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crescendo.runs.auditing.audit", lambda *_, **__: Report(**REPORT, findings=()))
    names = [client["name"] for client in json_of("account", "private.toml")["clients"]]
    assert json_of("audit", "private.toml")["name"] in names
    assert f"Audit of minibatch, {names[0]}" in shown("audit", "private.toml")


def test_a_run_that_says_that_its_noise_was_real_is_not_called_simulated() -> None:
    client = {"name": "AA", "records": 80, "events": [{"rate": 0.1, "sigma": 2.0, "count": 4}]}
    said = {"mechanism": "minibatch", "sigma": 2.0, "stated_epsilon": None, "delta": 1e-5, "clients": [client]}
    Path("here").mkdir()
    for simulated in (False, True):
        Path("here/privacy.json").write_text(json.dumps({**said, "simulated": simulated}))
        assert json_of("account", "here")["simulated"] is simulated
        assert ("simulated" in shown("account", "here")) is simulated


@pytest.mark.slow
def test_audit_fails_on_half_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    from crescendo.privacy.mechanisms.gaussian import noised

    monkeypatch.setattr(
        "crescendo.privacy.mechanisms.mechanism.noised", lambda x, scale, *rest: noised(x, scale / 2, *rest)
    )
    found = json_of("audit", "private.toml", "--runs", "40", code=1)
    assert "noise scale" in {finding["kind"] for finding in found["findings"]}
    assert found["noise_ratio"] == pytest.approx(0.5, abs=0.02)


# -- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", *SMALL_PLAN, "--epsilon", "0"],
        ["plan", *SMALL_PLAN, "--delta", "nan"],
        ["plan", *SMALL_PLAN, "--records", "0"],
        ["plan", *SMALL_PLAN, "--first-size", "99", "--json"],
        ["plan", *SMALL_PLAN, "--rounds", "61"],
        ["plan", *SMALL_PLAN, "--r0", "-1"],
        ["plan", *SMALL_PLAN, "--first-size", "1", "--gradients", "1000000000"],
        ["plan", *SMALL_PLAN, "--method", "paper"],
        ["plan", *SMALL_PLAN, "--write", "plain.toml"],
        ["plan", *SMALL_PLAN, "--write", "nowhere/planned.toml"],
        ["account"],
        ["account", "none.toml"],
        ["account", "."],
        ["account", "private.toml", "--delta", "2"],
        ["account", "private.toml", "--ledger", "my.ledger"],
        ["account", "private.toml", "--set", "privacy.epsilon=0.1", "--json"],
        ["account", ".", "--set", "run.seed=1"],
        ["account", "--ledger", "my.ledger"],
        ["audit", "none.toml"],
        ["audit", "plain.toml"],
        ["audit", "private.toml", "--runs", "1000001"],
        ["account", "--ledger", "plain.toml"],
        ["account", "private.toml", "--set", "privacy.sigma=1e300"],
        ["audit", "private.toml", "--set", "privacy.epsilon=0.1"],
    ],
    ids=" ".join,
)
def test_a_mistake_is_one_sentence_on_stderr_and_exit_code_1(arguments: list[str]) -> None:
    found = runner.invoke(app, arguments)
    assert found.exit_code == 1 and found.stdout == "", found.output
    assert found.stderr.startswith("crescendo: ") and found.stderr.count("\n") == 1
    assert {path.name for path in Path.cwd().iterdir()} == {"plain.toml", "private.toml"}


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "{}", '{"delta": 2}', '{"clients": [], "mechanism": "local", "sigma": 1, "delta": 0.1}'),
        '{"clients": [{"name": "a", "records": 5, "events": [{"rate": 2, "sigma": 1}]}], "delta": 0.1}',
    ],
)
def test_a_run_whose_privacy_file_was_changed_is_refused_in_one_sentence(text: str) -> None:
    Path("here").mkdir()
    Path("here/privacy.json").write_text(text)
    found = runner.invoke(app, ["account", "here"])
    assert found.exit_code == 1 and found.stderr.count("\n") == 1 and "it was changed" in found.stderr


def test_runs_on_the_same_records_are_added_up_and_the_sum_is_explained() -> None:
    for seed in (1, 2):
        simulate("private.toml" if seed == 1 else {**PRIVATE, "run": {"seed": seed}}, out=f"run-{seed}")
    one, both = json_of("account", "run-1"), json_of("account", "run-1", "run-2")
    client = both["clients"][0]
    assert client["runs"] == 2 and client["delta"] == pytest.approx(2e-5)
    assert client["added_epsilon"] == pytest.approx(2 * one["epsilon"])
    assert one["epsilon"] < client["together"]["epsilon"] < client["added_epsilon"]
    events = [(event, 2) for event in from_json(one["clients"][0]["events"])]
    counted = tally((pair[0], 2 * pair[1]) for pair, _ in events)
    assert client["together"]["epsilon"] == pytest.approx(account(counted, 2e-5).epsilon, rel=1e-6)
    words = shown("account", "run-1", "run-2")
    assert "added up" in words and "settled before the first began" in words.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("private.toml", "plain.toml"), "claims no privacy"),
        (("private.toml", "./private.toml"), "named twice"),
        (("private.toml", "events.json"), "events without clients"),
        (("private.toml", "plain.toml", "--export", "opacus"), "leave out all options"),
        (("private.toml", "nowhere"), "nowhere is neither a run file nor the folder of a run"),
        (("private.toml", "plain.toml", "--delta", "0.6"), "claims no privacy"),
    ],
)
def test_runs_that_cannot_be_added_up_are_refused_in_a_sentence(arguments: tuple[str, ...], says: str) -> None:
    found = runner.invoke(app, ["account", *arguments])
    assert found.exit_code == 1 and says in found.stderr and found.stderr.count("\n") == 1


def test_an_epsilon_is_said_in_words_by_plan_account_and_run() -> None:
    for command in (("plan", *SMALL_PLAN), ("account", "private.toml"), ("run", "private.toml", "--out", "said")):
        found = runner.invoke(app, command)
        assert found.exit_code in (0, 4), found.output  # 40 gradients under noise may end below the commonest class
        words = found.output.replace("\n", " ")
        assert "changes the odds" in words and "the best attack that wrongly accuses 1%" in words.lower(), command
        assert "a person with several records" in words
    page = Path("said/report.html").read_text()
    assert "changes the odds" in page and "best attack, at most" in page


def test_a_delta_above_one_over_n_is_warned_of_by_plan_and_account() -> None:
    asked = [*SMALL_PLAN[:2], "--delta", "0.02", *SMALL_PLAN[4:]]
    for command in (("plan", *asked), ("account", "private.toml", "--delta", "0.02")):
        assert "above 1/N" in shown(*command).replace("\n", " ")


def test_a_plan_for_next_to_no_epsilon_is_answered() -> None:
    """It once ended in a traceback."""
    asked = ["plan", "--epsilon", "1e-9", "--delta", "1e-6", "--records", "1000", "--gradients", "2000", "--json"]
    found = CliRunner().invoke(app, asked)
    assert found.exit_code in (0, 1) and (found.exception is None or isinstance(found.exception, SystemExit))
    assert "Traceback" not in found.output and found.output.strip()
