"""The program of an older commit, as processes beside those of this one.

The older commit comes out of this repository's own history; a clone without it has no older program.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tests.network.processes import Client

ROOT = Path(__file__).parents[2]
COMMIT = "0905781"  # before there were versions in messages
LATER_KEY = "gradient = false\n"  # of [evaluate]
BODY = """
import json, sys
import crescendo
from tests.network import process_tree, processes

assert crescendo.__file__.startswith(sys.argv[1]), crescendo.__file__
role, told = json.loads(sys.argv[2])
if role == "server":
    processes.run_server(*told)
elif role == "client":
    known = processes.Client.__dataclass_fields__  # what tests ask of a client has grown since
    processes.run_client(processes.Client(**{name: value for name, value in told.items() if name in known}))
else:
    process_tree.run_aggregator(*told)
"""


def unpacked(commit: str, to: Path) -> Path | None:
    """The files of a commit, put into a folder; None if the history does not have it."""
    made = subprocess.run(["git", "archive", commit, "crescendo", "tests"], cwd=ROOT, capture_output=True)
    if made.returncode != 0:
        return None
    subprocess.run(["tar", "-x", "-C", str(to)], input=made.stdout, check=True)
    return to


@dataclass(frozen=True)
class OldProgram:
    """The bodies of processes, as `tests.network.processes` has them, that become those of the program in ``root``."""

    root: Path

    def server(self, run_file: str, *told: Any) -> NoReturn:
        path = Path(run_file)  # of a key that came later only its default, which the older program has without it
        path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if line != LATER_KEY))
        self._become("server", (run_file, *told))

    def client(self, client: Client) -> NoReturn:
        self._become("client", dataclasses.asdict(client))

    def aggregator(self, *told: Any) -> NoReturn:
        self._become("aggregator", told)

    def _become(self, role: str, told: Any) -> NoReturn:
        """The process stays the same, so that it can be waited for and stopped like any other."""
        os.chdir(self.root)
        environment = {**os.environ, "PYTHONPATH": str(self.root)}
        arguments = [sys.executable, "-c", BODY, str(self.root), json.dumps([role, told])]
        os.execve(sys.executable, arguments, environment)
