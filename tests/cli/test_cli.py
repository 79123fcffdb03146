from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from crescendo.cli.common import one_sentence
from crescendo.cli.main import app
from tests.config.small import TOML

runner = CliRunner()
COMMANDS = [[], ["run"], ["sweep"], ["compare"], ["schedule"], ["data"], ["data", "list"]]


@pytest.fixture
def run_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(TOML)
    return "small.toml"


def json_of(*arguments: str) -> dict[str, Any]:
    found = runner.invoke(app, [*arguments, "--json"])
    assert found.exit_code == 0, found.output
    assert found.stdout.count("\n") == 1 and found.stderr == ""
    parsed = json.loads(found.stdout)
    assert isinstance(parsed, dict)
    return parsed


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_help_ends_with_a_line_to_paste(command: list[str]) -> None:
    lines = runner.invoke(app, [*command, "--help"]).stdout.strip().splitlines()
    assert re.fullmatch(rf"\s*Example: crescendo {' '.join(command)}.*", lines[-1])


def test_run_prints_what_was_saved_and_where_the_report_is(run_file: str) -> None:
    found = runner.invoke(app, ["run", run_file])
    assert found.exit_code == 0, found.output
    for words in (
        "accuracy",
        "Rounds that grow, against constant ones",
        "constant rounds of 10",
        "Report: runs/small-1/report.html",
    ):
        assert words in found.stdout
    assert Path("runs/small-1/report.html").is_file()


def test_rounds_that_do_not_grow_are_not_said_to_save(run_file: str) -> None:
    found = runner.invoke(app, ["run", run_file, "--set", "schedule.sizes={kind = 'constant', size = 10}"])
    assert found.exit_code == 0 and "10 gradients each" in found.stdout, found.output
    assert "Rounds that grow, against" not in found.stdout
    assert "The same gradients in constant rounds" not in Path("runs/small-1/report.html").read_text()


def test_a_run_that_diverged_says_so_with_a_step_that_would_do_and_exits_with_4(run_file: str) -> None:
    """And the step that it names does: the loss falls."""
    well = runner.invoke(app, ["run", run_file])
    assert well.exit_code == 0 and "diverged" not in well.output and "Rounds that grow, against" in well.stdout
    found = runner.invoke(app, ["run", run_file, "--set", "schedule.steps.eta0=1000.0"])
    assert found.exit_code == 4 and "Rounds that grow, against" not in found.stdout, found.output
    said = re.search(
        r"crescendo: the run diverged: the loss rose from .*; schedule\.steps\.eta0 <= (\S+) would be stable",
        found.stderr,
    )
    assert said is not None, found.stderr
    assert "Caution: these step sizes are" in found.stderr
    assert "The run diverged: the loss rose" in Path("runs/small-2/report.html").read_text()
    again = runner.invoke(app, ["run", run_file, "--set", f"schedule.steps.eta0={said[1]}", "--json"])
    assert again.exit_code == 0 and json.loads(again.stdout)["diverged"] is None
    rows = [json.loads(line) for line in Path("runs/small-3/metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["loss"] < rows[0]["loss"]


def test_a_run_that_broke_off_exits_with_4_and_says_so_in_json(run_file: str) -> None:
    found = runner.invoke(app, ["run", run_file, "--set", "schedule.steps.eta0=1e300", "--json"])
    assert found.exit_code == 4, found.output
    assert json.loads(found.stdout)["diverged"].startswith("the run diverged and broke off: ")
    assert not Path("runs/small-1").exists()


def test_run_prints_the_area_under_the_curve_without_privacy_too(run_file: str) -> None:
    found = runner.invoke(app, ["run", run_file, "--set", "evaluate.auc=true"])
    assert found.exit_code == 0 and "auc" in found.stdout, found.output


def test_a_name_in_brackets_is_printed_as_it_is(run_file: str) -> None:
    """Tables on the terminal take [/b] for markup, unless they are told that it is a name."""
    lines = [f"{i / 40},{('[/b]', '[red]')[i % 2]},{i // 2 % 2}" for i in range(40)]
    Path("[red].csv").write_text("\n".join(["x,who,late", *lines]))
    private = "privacy={mechanism = 'minibatch', sigma = 2.0, delta = 1e-5, clip = 1.0, records = 20}"
    changes = ("data.source='[red].csv'", "data.classes=[0, 1]", "clients.split=column:who", "clients.count=", private)
    found = runner.invoke(app, ["run", run_file, "--out", "[red]", *(f"--set={change}" for change in changes)])
    assert found.exit_code in (0, 4), found.output  # there is nothing to learn, so that noise may raise the loss
    assert "[/b] spends most" in found.stdout and "Report: [red]/report.html" in found.stdout


def test_run_as_json_is_one_object(run_file: str) -> None:
    found = json_of("run", run_file, "--seed", "3", "--set", "clients.count=3", "--out", "here")
    assert (found["rounds"], found["run"]) == (3, "here")
    assert "seed = 3" in Path("here/config.toml").read_text()


def test_schedule_shows_both_sides_of_every_condition(run_file: str) -> None:
    tau = ["--set", "schedule.wait={tau = 50, d = 1}"]
    shown = runner.invoke(app, ["schedule", run_file, *tau])
    assert shown.exit_code == 0, shown.output
    for words in ("liveness", "holds", "First rounds", "step size"):
        assert words in shown.stdout
    found = json_of("schedule", run_file, *tau)
    ahead = found["conditions"][-1]
    assert (ahead["name"], ahead["left"], ahead["right"], ahead["holds"]) == ("d = 1 rounds ahead", 50.0, 50.0, True)
    assert [row["gradients"] for row in found["first_rounds"]] == [10, 20, 30]
    assert [sum(row["shares"]) for row in found["first_rounds"]] == [10, 20, 30]


PRIVATE = """
[privacy]
mechanism = "minibatch"
sigma = 2.0
delta = 1e-6
clip = 1.0
records = 500
"""
SERVED = """
[clients]
count = 2
weights = "uniform"
[schedule]
rounds = 3
sizes = {kind = "power", scale = 10}
steps = {kind = "diminishing", eta0 = 0.1, beta = 0.01}
[serve]
federation = "trial"
features = 3
"""


ELSEWHERE = '[data]\nsource = "with the clients"\n'
CLASSES = "[data]\nclasses = [0, 1]\n"


@pytest.mark.parametrize(
    "more", ["", ELSEWHERE, CLASSES, ELSEWHERE + "classes = [0, 1]\n" + PRIVATE, CLASSES + PRIVATE]
)
def test_schedule_shows_what_a_server_would_serve(more: str, run_file: str) -> None:
    Path("served.toml").write_text(SERVED + more)
    shown = runner.invoke(app, ["schedule", "served.toml"])
    assert shown.exit_code == 0 and "First rounds" in shown.stdout, shown.output
    found, simulated = json_of("schedule", "served.toml"), json_of("schedule", run_file)
    assert found["first_rounds"] == simulated["first_rounds"]
    assert (found["clients"], found["rounds"]) == (2, 3)


def test_schedule_refuses_what_a_server_would_refuse(run_file: str) -> None:
    Path("served.toml").write_text(SERVED.replace('federation = "trial"', ""))
    found = runner.invoke(app, ["schedule", "served.toml"])
    assert found.exit_code == 1 and "serve.federation is missing" in found.stderr
    Path("served.toml").write_text(SERVED.partition("[serve]")[0])
    found = runner.invoke(app, ["schedule", "served.toml"])
    assert found.exit_code == 1 and "data is missing" in found.stderr


def test_schedule_writes_nothing(run_file: str) -> None:
    runner.invoke(app, ["schedule", run_file])
    assert [path.name for path in Path.cwd().iterdir()] == ["small.toml"]


@pytest.mark.slow
def test_data_list_can_be_printed_where_only_ascii_can() -> None:
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C", "COLUMNS": "60"}
    found = crescendo("data", "list", env=ascii_only)
    assert found.returncode == 0 and "a9a" in found.stdout, found.stderr


def test_data_list_names_every_source() -> None:
    found = json_of("data", "list")
    names = {source["name"] for source in found["sources"]}
    assert {"flights", "a9a", "w8a", "phishing", "ijcnn1", "covtype.binary", "real-sim", "mnist", "synthetic"} <= names
    shown = runner.invoke(app, ["data", "list"]).stdout
    assert all(name in shown for name in names)


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "none.toml"],
        ["run", "small.toml", "--set", "clients.cuont=3"],
        ["run", "small.toml", "--set", "timing.speed=1e-320"],
        ["run", "small.toml", "--set", "schedule.wait={tau = 5}"],
        ["run", "small.toml", "--out", "small.toml"],
        ["run", "small.toml", "--out", "small.toml/inside"],
        ["run", "small.toml", "--out", "/proc/nowhere/run"],
        ["run", "small.toml", "--seed", "-1"],
        ["schedule", "small.toml", "--json", "--set", "data.source=nothing"],
    ],
    ids=" ".join,
)
def test_a_mistake_is_one_sentence_on_stderr_and_exit_code_1(run_file: str, arguments: list[str]) -> None:
    found = runner.invoke(app, arguments)
    assert found.exit_code == 1 and found.stdout == ""
    assert found.stderr.startswith("crescendo: ") and found.stderr.count("\n") == 1
    assert [path.name for path in Path.cwd().iterdir()] == ["small.toml"]


def test_a_run_that_is_interrupted_says_so_and_leaves_nothing(run_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("crescendo.simulator.simulation.Simulation.run", interrupted)
    found = runner.invoke(app, ["run", run_file])
    assert (found.exit_code, found.stderr) == (130, "crescendo: stopped\n")
    assert not Path("runs").exists()


LOADING = """
import os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)
            while True:  # until the signal is heard of
                pass

sys.meta_path.insert(0, Interrupt())
from crescendo.__main__ import main
main()
"""


@pytest.mark.slow
def test_an_interrupt_while_it_is_still_loading_is_one_line_too() -> None:
    found = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True, timeout=300)
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "crescendo: stopped\n")


@pytest.mark.slow
def test_nothing_that_takes_time_is_loaded_before_an_interrupt_is_heeded() -> None:
    probe = "import sys, crescendo.__main__; print(' '.join(sys.modules))"
    found = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert {"numpy", "typer", "asyncio", "typing"} & set(found.stdout.split()) == set()


@pytest.mark.slow
def test_a_closed_stream_is_not_taken_by_the_next_file_that_is_opened(tmp_path: Path) -> None:
    """Else what a library says on stderr would be written into a journal."""
    probe = (
        "import os, sys; from crescendo.__main__ import _open_streams; _open_streams(); print(os.open(os.devnull, 0))"
    )
    found = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, probe], capture_output=True, text=True, check=True
    )
    assert int(found.stdout) > 2


def crescendo(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "crescendo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, **options)


@pytest.mark.slow
def test_the_installed_command_answers_with_its_version() -> None:
    found = subprocess.run(
        [Path(sys.executable).with_name("crescendo"), "--version"], capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"crescendo \d+\.\d+\.\d+ \(build [0-9a-f]{12}; Python 3.+\)\n", found.stdout)


@pytest.mark.slow
def test_a_real_process_prints_json_and_nothing_else(run_file: str) -> None:
    found = crescendo("run", run_file, "--json")
    assert (found.returncode, found.stderr) == (0, "")
    assert json.loads(found.stdout)["gradients"] == 60


@pytest.mark.slow
def test_a_real_process_answers_a_mistake_without_a_traceback(run_file: str) -> None:
    found = crescendo("run", run_file, "--set", "clients.count=none")
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr == 'crescendo: clients.count must be a whole number of at least 1, not "none"\n'


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(run_file: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "crescendo", "data", "list", "--json"]
    with os.fdopen(writing, "w") as closed:
        found = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True)
    assert found.stderr == "" and found.returncode == 141


def test_a_path_that_the_system_refuses_comes_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), one_sentence():
        Path("/dev/null/state").read_bytes()
    said = "crescendo: the system refused /dev/null/state: not a directory; check that path and who may use it, or name another\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(("module", "extra"), [("grpc", "network"), ("cryptography", "network"), ("pandas", "demo")])
def test_a_package_that_is_not_installed_is_named_with_what_brings_it(
    module: str, extra: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended, one_sentence():
        raise ModuleNotFoundError(f"No module named {module!r}", name=f"{module}.part")
    assert ended.value.exit_code == 1
    assert f"install it with pip install 'crescendo-fl[{extra}]'" in capsys.readouterr().err
