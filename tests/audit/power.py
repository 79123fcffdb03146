"""How often does the audit catch each bug of `planted_edges`, at the settings that users have?

    python -m tests.audit.power --bugs all --seeds 60 --processes 2 --out FILE.jsonl

Every audit is a line of the file: bug, seed, what caught it, processor seconds. Those that the file has are not made again,
so that a run can be stopped and gone on with. ``--bugs none`` audits the same runs without a bug.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from lab.trials.sound_audits import THREADS, append

RUNS, DELTA = 400, 1e-5
SOUND = "none"


def attacked(bug_and_seed: tuple[str, int]) -> dict[str, Any]:
    """The audit of one bug with one seed, as a line of the file."""
    from crescendo.audit import audit
    from crescendo.runs.auditing import THRESHOLD_RUNS, TRIES
    from crescendo_dp.accounting.epsilon import account
    from tests.audit.planted_edges import EDGES, EVERY, Edge

    name, seed = bug_and_seed
    edge = next((one for one in EDGES if one.name == name), Edge(SOUND, "", EVERY))
    certificate, objective, given = edge.planted(seed)
    claimed = account(certificate.events(0), certificate.usual_delta(DELTA)).epsilon
    began = time.process_time()
    asked = {"runs": RUNS, "tries": TRIES, "threshold_runs": THRESHOLD_RUNS * RUNS, "seed": seed}
    report = audit(certificate, objective, claimed=claimed, delta=DELTA, **asked, **given)  # type: ignore[arg-type]
    return {
        "bug": name,
        "seed": seed,
        "seconds": round(time.process_time() - began, 2),
        "caught": not report.passed,
        "by": list(dict.fromkeys(finding.kind for finding in report.findings)),
        "says": [finding.says for finding in report.findings if finding.kind == edge.by or not edge.by],
    }


def stored(path: Path | None) -> dict[tuple[str, int], dict[str, Any]]:
    """The audits that the file has. A last line that was cut off is none."""
    found = {}
    for line in path.read_text().splitlines() if path is not None and path.exists() else ():
        try:
            one = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[one["bug"], one["seed"]] = one
    return found


def table(audits: Iterable[dict[str, Any]]) -> Iterator[str]:
    """A row for each bug, as markdown."""
    audits = [*audits]
    yield "| bug | caught | by the check that is for it | processor seconds |"
    yield "|---|---|---|---|"
    for bug in dict.fromkeys(one["bug"] for one in audits):
        of_it = [one for one in audits if one["bug"] == bug]
        caught, named = sum(one["caught"] for one in of_it), sum(bool(one["says"]) for one in of_it)
        seconds = sum(one["seconds"] for one in of_it) / len(of_it)
        yield f"| {bug} | {caught} of {len(of_it)} | {named} | {seconds:.1f} |"


def main() -> None:
    from tests.audit.planted_edges import EDGES

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--bugs", default="all", help='names, with commas between them; "all", or "none" for sound runs'
    )
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path)
    said = parser.parse_args()
    names = [edge.name for edge in EDGES] if said.bugs == "all" else [name.strip() for name in said.bugs.split(",")]
    if unknown := set(names) - {SOUND, *(edge.name for edge in EDGES)}:
        parser.error(f"there is no bug called {', '.join(sorted(unknown))}")
    known = stored(said.out)
    wanted = [(name, seed) for name in names for seed in range(said.first_seed, said.first_seed + said.seeds)]
    os.environ.update(dict.fromkeys(THREADS, "1"))
    with get_context("spawn").Pool(said.processes) as pool:
        for one in pool.imap_unordered(attacked, [pair for pair in wanted if pair not in known]):
            known[one["bug"], one["seed"]] = one
            if said.out is not None:
                append(said.out, one)
    print(*table(known[pair] for pair in wanted if pair in known), sep="\n")


if __name__ == "__main__":
    main()
