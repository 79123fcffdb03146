"""Every command that a new project's README shows does what the README says, as it stands there but for the port."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crescendo.cli.main import app
from crescendo.config.loading import read_served
from crescendo.config.to_terms import terms_and_cost
from crescendo.federation.agreement import build_terms
from crescendo.federation.own_model import clients_copy
from crescendo.federation.own_records import RecordSource
from crescendo.federation.policy import Policy
from crescendo.logs import quiet
from crescendo.objectives import ModelFile
from crescendo.projects.dealing import dealing
from tests.projects.test_new_project import made

PATIENCE = 120  # seconds


def commands(readme: str) -> list[str]:
    """Each line of each block."""
    return [line for block in re.findall(r"^```\n(.*?)^```", readme, re.M | re.S) for line in block.splitlines()]


def shortened(folder: Path) -> None:
    """Fewer rounds of the same kind."""
    for name, wanted in (("private.toml", ("rounds", 3)), ("run.toml", ("gradients", 300))):
        text = (folder / name).read_text(encoding="utf-8")
        (folder / name).write_text(re.sub(rf"^{wanted[0]} = \d+", f"{wanted[0]} = {wanted[1]}", text, flags=re.M))


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["own", "csv", "bought", "numbers", "torch"])
def test_every_command_of_the_readme_runs(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made(tmp_path, kind)
    shortened(folder)
    monkeypatch.chdir(folder)
    shown = commands((folder / "README.md").read_text(encoding="utf-8"))
    network = [line for line in shown if re.match("crescendo (serve|join) ", line)]
    assert len(network) == (2 if kind == "bought" else 3) and len(shown) == 6 + 2 * (kind in ("csv", "numbers"))
    for line in shown:
        if line in network:
            continue
        if line.startswith("crescendo "):
            found = CliRunner().invoke(app, shlex.split(line)[1:])
            assert found.exit_code in (0, 4), f"{line}: {found.output}"  # so few rounds may not learn
        else:
            subprocess.run(line, shell=True, check=True)
    if kind not in ("csv", "bought"):
        return  # these two federations are enough: the terms of the others are held against the records below
    port, env = free_port(), {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    lines = [shlex.split(line.replace("7077", str(port)))[1:] for line in network]
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "crescendo", *line],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for line in lines
    ]
    try:
        for process in running:
            output, _ = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0 and "finished" in output, output
    finally:
        for process in running:
            process.kill()
            process.wait()


@pytest.mark.parametrize("kind", ["own", "csv", "bought", "numbers", pytest.param("torch", marks=pytest.mark.slow)])
def test_the_records_and_the_policy_of_each_join_suit_the_served_terms(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A join that is declined uses an offer up: this is what decides it, without a network."""
    monkeypatch.chdir(made(tmp_path, kind))
    shown = commands(Path("README.md").read_text(encoding="utf-8"))
    for line in (line for line in shown if not line.startswith("crescendo ")):
        subprocess.run(line, shell=True, check=True)
    serve = next(shlex.split(line) for line in shown if line.startswith("crescendo serve"))
    overrides = [text for flag, text in itertools.pairwise(serve) if flag == "--set"]
    text, _ = terms_and_cost(read_served(Path("private.toml"), overrides))
    joins = [shlex.split(line) for line in shown if line.startswith("crescendo join")]
    for me, words in enumerate(joins):
        options = dict(zip(words[3::2], words[4::2], strict=True))
        copy = ModelFile.read(options["--model"], asked="--model") if "--model" in options else None
        agreed = clients_copy(build_terms(text), copy, quiet)
        Policy.read(Path(options["--policy"])).check_terms(agreed)
        assert agreed.names[me] == options["--as"] and Path(options["--policy"]).name == "policy.toml"
        source = RecordSource(options["--data"], part=options.get("--part"), test=float(options.get("--test", 0)))
        source.check()
        found = source.read(agreed, me)
        assert len(found.records) > 250 and not found.left_out


def test_a_table_of_any_kind_is_dealt_out(tmp_path: Path) -> None:
    assert "gzip -dc '../my p.csv.gz' | awk" in dealing("../my p.csv.gz") and "read_parquet" in dealing("p.parquet")
    (tmp_path / "my p.csv").write_text("a,b\n1,x\n2,y\n3,x\n", encoding="utf-8")
    for line in commands(dealing("my p.csv")):
        subprocess.run(line, shell=True, check=True, cwd=tmp_path)
    assert [(tmp_path / name).read_text() for name in ("alice.csv", "bob.csv")] == ["a,b\n1,x\n3,x\n", "a,b\n2,y\n"]
