"""LeNet-5 on MNIST, four clients: constant and growing rounds, the sum and the mean, unbiased and biased data.

    python -m lab.trials.lenet [--seeds 3] [--only WORD] [--tables]

The paper's settings: K = 20,000 gradients over all clients, steps of one record. Constant rounds of 100 a client with
eta = 0.0025 (the paper: 0.947); rounds of 100 (i + 1) a client with eta = 0.1 / (1 + 0.01 sqrt(t)), t counted over all clients
at a round's start. With biased data, no two clients share a digit. Then one thing changes at a time, and rounds become longer
at equal K.

Every finished run becomes a line of lab/results/lenet.jsonl and does not run again. The page's tables are made from that file.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

from crescendo.data import Dataset, load
from crescendo.errors import DataError
from lab.trials.mnist_runs import net, run
from lab.trials.page_tables import write_tables
from lab.trials.stored_results import FOLDER, StoredResults

Values = dict[str, Any]
RESULTS, PAGE = FOLDER / "lenet.jsonl", "sum_or_mean.md"
GROWING: Values = {"kind": "power", "scale": 100, "per_client": True}
FALLING: Values = {"kind": "diminishing", "eta0": 0.1, "beta": 0.01, "root": True}
ROUNDS: dict[str, Values] = {
    "constant": {"sizes": {"kind": "constant", "size": 400}, "steps": {"kind": "constant", "eta": 0.0025}},
    "growing": {"sizes": GROWING, "steps": FALLING},
}
STANDARD = {"centre": 0.1307, "spread": 0.3081}  # the mean and deviation of MNIST's pixels that most programs use
CHANGES: dict[str, Values] = {
    "inputs standardised": {"options": STANDARD},
    "first weights times 1.73": {"options": {"gain": 1.732}},
    "first weights times 2.45": {"options": {"gain": 2.449}},
    "tanh": {"options": {"activation": "tanh"}},
    "mean pooling": {"options": {"pool": "mean"}},
    "tanh, mean pooling": {"options": {"activation": "tanh", "pool": "mean"}},
    "inputs standardised, first weights times 2.45": {"options": {**STANDARD, "gain": 2.449}},
    "staggered": {"timing": {"preset": "staggered"}},
    "heterogeneous": {"timing": {"preset": "heterogeneous"}},
    "no client ahead": {"wait": {"rounds": 0}},
}
GROWING_CHANGES: dict[str, Values] = {
    "9 rounds": {"length": {"rounds": 9}},
    "steps without the root": {"steps": {**FALLING, "root": False}},
    "steps that fall within a round": {"steps": {**FALLING, "per": "slot"}},
    "steps that do not fall": {"steps": {"kind": "constant", "eta": 0.1}},
}
LENGTHS = (10, 25, 100, 250, 1000, 2500)  # of a client's 5,000 gradients, in each round


def cases() -> Iterator[Values]:
    """Yield every setting without its seed, the most important first."""
    for rounds in ROUNDS:
        for combine in ("sum", "mean"):
            for split in ("iid", "label"):
                yield {"rounds": rounds, "combine": combine, "split": split}
    for rounds, combine, changes in (("growing", "mean", CHANGES | GROWING_CHANGES), ("constant", "sum", CHANGES)):
        for changed in changes:
            yield {"rounds": rounds, "combine": combine, "split": "iid", "changed": changed}
    for split in ("label", "iid"):
        for length in LENGTHS:
            yield {"rounds": "longer", "combine": "mean", "split": split, "length": length}


def config(case: Values, gradients: int = 20_000) -> tuple[Values, Values]:
    """Return a case's run file without its network, and the network's options."""
    changed = (CHANGES | GROWING_CHANGES).get(case.get("changed", ""), {})
    if case["rounds"] == "longer":
        rounds: Values = {
            "sizes": {"kind": "constant", "size": 4 * case["length"]},
            "steps": {"kind": "constant", "eta": 0.02},
        }
    else:
        rounds = ROUNDS[case["rounds"]]
    asked = {
        "clients": {"count": 4, "combine": case["combine"], "split": case["split"], "weights": "uniform"},
        "schedule": {
            **changed.get("length", {"gradients": gradients}),
            "sizes": rounds["sizes"],
            "steps": changed.get("steps", rounds["steps"]),
            "wait": changed.get("wait", {"rounds": 1}),
        },
        "timing": changed.get("timing", {}),
        "run": {"seed": case["seed"]},
    }
    return asked, changed.get("options", {})


def measure(case: Values, data: Dataset, gradients: int = 20_000) -> Values:
    """Return the accuracy on the test part; for plotted settings also at about five moments of the run."""
    asked, options = config(case, gradients)
    plotted = set(case) == {"rounds", "combine", "split", "seed"}
    return run(
        asked,
        net("jax:lenet", options, data),
        data,
        lambda k, rounds: plotted and k % max(1, rounds // 5) == 0,
    )


def scores(results: StoredResults, case: Values) -> str:
    """Return the accuracy of every seed. A run that broke off diverged to a non-finite number."""
    runs = sorted(
        (setting["seed"], found["accuracy"])
        for setting, found in results
        if {**setting, "seed": 0} == {**case, "seed": 0}
    )
    return " ".join("broke off" if score is None else f"{score:.4f}" for _, score in runs) or "not measured"


def tables(results: StoredResults) -> dict[str, list[str]]:
    """Return the tables of all stored runs: the paper's settings, one thing changed at a time, other lengths of rounds."""
    said = {"constant": "50 equal rounds, eta = 0.0025", "growing": "10 growing rounds, eta0 = 0.1"}
    settings = ["| rounds | combined as | unbiased, seeds 0 to 2 | biased |", "|---|---|---|---|"]
    for rounds, combine in itertools.product(ROUNDS, ("sum", "mean")):
        both = [scores(results, {"rounds": rounds, "combine": combine, "split": split}) for split in ("iid", "label")]
        settings.append(f"| {said[rounds]} | {combine} | {both[0]} | {both[1]} |")
    changes = ["| changed | growing rounds, mean | equal rounds, sum |", "|---|---|---|"]
    for changed in ("", *CHANGES, *GROWING_CHANGES):
        cells = [
            "" if rounds == "constant" and changed in GROWING_CHANGES else scores(results, {**base, **_named(changed)})
            for rounds, base in (("growing", _base("growing", "mean")), ("constant", _base("constant", "sum")))
        ]
        changes.append(f"| {changed or 'nothing'} | {cells[0]} | {cells[1]} |")
    lengths = ["| gradients a client and round | rounds | unbiased | biased |", "|---|---|---|---|"]
    for length in LENGTHS:
        case = {"rounds": "longer", "combine": "mean", "length": length}
        both = [scores(results, {**case, "split": split}) for split in ("iid", "label")]
        lengths.append(f"| {length} | {20_000 // (4 * length)} | {both[0]} | {both[1]} |")
    found = {"settings": settings, "changes": changes, "lengths": lengths}
    return {name: [line for line in lines if _measured(line)] for name, lines in found.items()}


def _measured(line: str) -> bool:
    """Return whether a row is a title or has a score; settings that have not run yet are left out."""
    return "not measured" not in line or any(part.strip().startswith("0.") for part in line.split("|"))


def _base(rounds: str, combine: str) -> Values:
    return {"rounds": rounds, "combine": combine, "split": "iid"}


def _named(changed: str) -> Values:
    return {"changed": changed} if changed else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="settings that have this word")
    parser.add_argument("--tables", action="store_true", help="write the page's tables and run nothing")
    said = parser.parse_args()
    results = StoredResults(RESULTS)
    if not said.tables:
        try:
            data = load("mnist")
        except DataError as error:
            raise SystemExit(f"{error}") from None
        for case in cases():
            if said.only not in " ".join(str(value) for value in case.values()):
                continue
            for seed in range(said.seeds):
                setting = {**case, "seed": seed}
                found = results.measured(setting, partial(measure, setting, data))
                print(*setting.values(), found["accuracy"], flush=True)
    write_tables(PAGE, tables(results))


if __name__ == "__main__":
    main()
