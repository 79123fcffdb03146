"""Mutation: bugs planted by rule in the modules that make an epsilon true, and what catches each of them.

    python -m tests.audit.mutate --part 1/4 --out FILE.jsonl         # the first of four parts; `make mutants` runs all
    python -m tests.audit.mutate --only minibatch --list             # the mutants of some modules, by name

A mutant is a module with one place changed: a clip, a factor, a term, a draw, an offset or a charge that is dropped, a condition
that is widened, rows that are swapped (`tests.audit.mutation.operators`). So many of each module are chosen by a seed
(`targets`). Each is audited in small configured runs (`audited_runs`), in those that execute its line, with short audits first
and then as `crescendo audit` does with no options; what no audit catches meets the tests of its module. What is caught by
neither is explained in `explained`, or is a gap.

Every mutant is a line of the file; those that the file has are not tried again, so that a run can be stopped and gone on with.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.audit.mutation.explained import EXPLAINED
from tests.audit.mutation.operators import Mutant, chosen, mutants_of
from tests.audit.mutation.targets import BY_MODULE, TARGETS, Target

SEED = 24
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def wanted(targets: Sequence[Target], share: float = 1.0) -> list[Mutant]:
    """The chosen mutants, modules in turn, so that every part has some of each."""
    by_module = [chosen(t.module, max(1, round(t.mutants * share)), SEED, t.left_out) for t in targets]
    longest = max(map(len, by_module), default=0)
    return [some[k] for k in range(longest) for some in by_module if k < len(some)]


def part_of(mutants: Sequence[Mutant], part: str) -> list[Mutant]:
    """Part i/n of them.

    >>> part_of([1, 2, 3, 4, 5], "2/2")
    [2, 4]
    """
    i, n = map(int, part.split("/"))
    if not 1 <= i <= n:
        raise ValueError(f"{part} is no part; 1/{n} to {n}/{n} are")
    return list(mutants[i - 1 :: n])


def stored(path: Path | None) -> dict[str, dict[str, Any]]:
    """The trials that the file has, by key; the last of a mutant counts. A line that was cut off is none."""
    found = {}
    for line in path.read_text().splitlines() if path is not None and path.exists() else ():
        try:
            one = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[one["key"]] = one
    return found


# -- what came of it -----------------------------------------------------------------------------------------------------


def verdict(trial: dict[str, Any]) -> str:
    """audit, tests, explained or nothing."""
    if trial["audit"] is not None:
        return "audit"
    if trial["test"] is not None:
        return "tests"
    return "explained" if trial["key"] in EXPLAINED else "nothing"


def table(trials: Iterable[dict[str, Any]], by: str) -> Iterator[str]:
    """Rows by module or operator, as markdown."""
    trials = [*trials]
    yield f"| {by} | mutants | by the audit | by tests only | explained | by nothing |"
    yield "|---|---|---|---|---|---|"
    for name in [*dict.fromkeys(one[by] for one in trials), "all"]:
        counts = Counter(verdict(one) for one in trials if name in (one[by], "all"))
        shown = name.removeprefix("crescendo.")
        cells = (counts[which] for which in ("audit", "tests", "explained", "nothing"))
        yield f"| {shown} | {counts.total()} | {' | '.join(map(str, cells))} |"


def summary(trials: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Both tables, the shares that are asked for, what it took, and every mutant that nothing catches."""
    trials = [*trials]
    if not trials:
        return
    yield from (*table(trials, "module"), "", *table(trials, "operator"), "")
    counted = [one for one in trials if verdict(one) != "explained"]
    caught = sum(verdict(one) in ("audit", "tests") for one in counted)
    yield f"{caught} of {len(counted)} mutants that change something are caught: {caught / len(counted):.1%}"
    telling = [one for one in counted if BY_MODULE[one["module"]].role in ("released", "certified")]
    seen = sum(verdict(one) == "audit" for one in telling)
    if telling:
        share = f"{seen / len(telling):.1%}"
        yield f"{seen} of {len(telling)} that change a release or its certificate are caught by the audit alone: {share}"
    stops = sum(one["audit"] is not None and one["audit"]["by"][0] in ("error", "hang", "death") for one in trials)
    seconds = sum(one["audit_seconds"] + one["test_seconds"] for one in trials) / len(trials)
    yield f"{stops} of those that the audit catches stop the run; a mutant took {seconds:.1f} processor seconds"
    for one in trials:
        if verdict(one) == "nothing":
            yield f"nothing catches {one['name']} | {one['key']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", default="1/1", help="i/n: every n-th mutant, from the i-th on")
    parser.add_argument("--only", default="", help="names of modules, or their ends, with commas between them")
    parser.add_argument("--share", type=float, default=1.0, help="of the mutants of each module")
    parser.add_argument("--keys", type=Path, help="a file of keys, one a line: try these alone, and again")
    parser.add_argument(
        "--out", type=Path, help="a line of JSON for every mutant; those that it has are not tried again"
    )
    parser.add_argument("--list", action="store_true", help="print the chosen mutants and try none")
    parser.add_argument("--table", action="store_true", help="print the tables of the file and try none")
    said = parser.parse_args()
    ends = [end.strip() for end in said.only.split(",") if end.strip()]
    targets = [t for t in TARGETS if not ends or any(t.module.endswith(end) for end in ends)]
    if said.keys is not None:
        asked = set(said.keys.read_text().splitlines())
        mutants = [one for t in targets for one in mutants_of(t.module, t.left_out) if one.key in asked]
    else:
        mutants = part_of(wanted(targets, said.share), said.part)
    if said.list:
        print(*(f"{one.name} | {one.key}" for one in mutants), sep="\n")
        return
    known = stored(said.out)
    if not said.table:
        try_all(mutants, known, said.out, again=said.keys is not None)
    print(*summary(known[one.key] for one in mutants if one.key in known), sep="\n")


def try_all(mutants: Sequence[Mutant], known: dict[str, dict[str, Any]], out: Path | None, again: bool) -> None:
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    from tests.audit.mutation import trial

    trial.warm()
    left = [one for one in mutants if again or one.key not in known]
    lines = trial.reached(None if out is None else out.with_suffix(".reached.json")) if left else {}
    for one in left:
        known[one.key] = found = trial.tried(one, trial.runs_for(one, lines), BY_MODULE[one.module].tests)
        print(f"{verdict(found):9} {one.name} | {one.before} -> {one.after}", flush=True)
        if out is not None:
            with out.open("a") as file:
                file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
