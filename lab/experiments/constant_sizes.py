"""The paper's table: accuracy with constant step and sample sizes, from 80 rounds of 50 samples per client to 4 of 1,000."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.experiments.training import SEEDS, dataset, federation, grid, rounded, source_for, trained
from lab.pipeline.experiment import (
    Effort,
    Experiment,
    Findings,
    Job,
    Line,
    Outcome,
    Panel,
    PaperStatement,
    Plot,
    TextTable,
)
from lab.pipeline.summaries import (
    COMBINATIONS,
    SAME,
    TIMINGS,
    best_of,
    gap,
    look_of,
    margin,
    mean,
    named,
    score_line,
    settings_of,
    short,
    span,
    spread,
    where,
)
from lab.pipeline.verdicts import Scores, above, all_of, any_of, differences, inside

SIZES = (50, 100, 200, 500, 700, 1000)  # per client and round
PRAISED = (100, 200)
PAPER: dict[tuple[str, str], tuple[float, ...]] = {
    ("a9a", "strongly convex"): (0.8418, 0.8443, 0.8386, 0.8333, 0.8298, 0.7271),
    ("a9a", "plain convex"): (0.8409, 0.8415, 0.8417, 0.8299, 0.8346, 0.7276),
    ("covtype.binary", "strongly convex"): (0.8429, 0.8402, 0.8408, 0.8360, 0.8278, 0.7827),
    ("covtype.binary", "plain convex"): (0.8421, 0.8438, 0.8404, 0.8381, 0.8379, 0.7287),
}
RULE = (
    f"A number held in a setting (sum or mean, one of three timings) if the interval of our mean lies within {SAME} of it; the "
    f"sentence about 100 and 200, if one of the two is no more than {SAME} below any other size; the fall at 1,000, if its "
    f"accuracy is more than {SAME} below that of 100: by the intervals of differences, seed by seed."
)


def run(
    row: tuple[str, str], source: str, combine: str, timing: str, size: int, seeds: Sequence[int]
) -> dict[str, Any]:
    sizes = {"kind": "constant", "size": size, "per_client": True}
    config = federation(row[1], combine, timing, 20_000, sizes, {"kind": "constant", "eta": 0.0025})
    return trained(source, config, seeds)


def pooled(row: tuple[str, str], source: str) -> dict[str, Any]:
    """Return the test accuracy of logistic regression on all training records: the best that a federation can reach."""
    from sklearn.linear_model import LogisticRegression

    data = dataset(source)
    assert data.test is not None
    model = LogisticRegression(C=1.0, max_iter=300).fit(data.train.x, data.train.y)
    return {"pooled": rounded(float(model.score(data.test.x, data.test.y)))}


def jobs(effort: Effort) -> list[Job]:
    axes = {
        "combine": COMBINATIONS,
        "timing": TIMINGS[2:] if effort.quick else TIMINGS,
        "size": (100, 1000) if effort.quick else SIZES,
    }
    found = []
    for row in PAPER:
        source = source_for(row[0], effort.quick)
        if row[1] == "strongly convex":
            found.append(Job(pooled, {"row": row, "source": source}, source))
        for one in grid(**axes):
            found.append(Job(run, {"row": row, "source": source, **one, "seeds": effort.seeds_of(SEEDS)}, source))
    return found


def findings(outcomes: list[Outcome]) -> Findings:
    runs = [one for one in outcomes if "size" in one]
    tried = [size for size in SIZES if any(one["size"] == size for one in runs)]
    best = {one["row"][0]: one["pooled"] for one in outcomes if one.get("pooled") is not None}
    statements = [
        *(_number(row, size, where(runs, row=row, size=size), best.get(row[0])) for row in PAPER for size in tried),
        *(_best(row, where(runs, row=row)) for row in PAPER),
        *(_fall(row, where(runs, row=row)) for row in PAPER),
    ]
    remarks = [
        f"Logistic regression on all of {one['row'][0]} at once, without any federation, reaches {short(one['pooled'])}."
        for one in outcomes
        if one.get("pooled") is not None
    ]
    return Findings(RULE, tuple(statements), (_table(runs),), _plots(runs), tuple(remarks))


def _number(row: tuple[str, str], size: int, runs: list[Outcome], best: float | None) -> PaperStatement:
    """Judge one number of the table. ``best`` is the accuracy of logistic regression on all records at once."""
    scores = [one["accuracies"] for one in runs]
    paper, rounds = PAPER[row][SIZES.index(size)], sorted({one["rounds"] for one in runs})
    what = f"{row[0]}, {row[1]}, {size} per client" + "".join(f", {many} rounds" for many in rounds)
    verdicts = [inside(one, paper - SAME, paper + SAME) for one in scores]
    beyond = best is not None and paper > best + SAME
    why = f"no linear model: pooled regression reaches {short(best)}" if beyond and True not in verdicts else ""
    return PaperStatement.judged(
        what, short(paper), span([mean(one) for one in scores]) + margin(scores), verdicts, why
    )


def _best(row: tuple[str, str], runs: list[Outcome]) -> PaperStatement:
    verdicts, found = [], set()
    for setting in settings_of(runs):
        by_size = _by_size(where(runs, **setting))
        others = [scores for size, scores in by_size.items() if size not in PRAISED]
        praised = [scores for size, scores in by_size.items() if size in PRAISED]
        verdicts.append(any_of(all_of(inside(differences(one, other), -SAME) for other in others) for one in praised))
        best = best_of(list(by_size.values()))
        found.add(next(size for size, scores in by_size.items() if scores is best))
    ours = f"highest mean at {', '.join(map(str, sorted(found)))}" if found else ""
    return PaperStatement.judged(f"{row[0]}, {row[1]}: the best sizes", "100 or 200", ours, verdicts)


def _fall(row: tuple[str, str], runs: list[Outcome]) -> PaperStatement:
    pairs = []
    for setting in settings_of(runs):
        by_size = _by_size(where(runs, **setting))
        pairs.append((by_size[100], by_size[1000]))
    verdicts = [above(differences(*pair), SAME) for pair in pairs]
    paper = f"falls by {short(PAPER[row][1] - PAPER[row][5])}"
    ours = f"falls by {gap(pairs)}" if pairs else ""
    return PaperStatement.judged(f"{row[0]}, {row[1]}: from 100 to 1,000", paper, ours, verdicts)


def _by_size(runs: list[Outcome]) -> dict[int, Scores]:
    return {one["size"]: one["accuracies"] for one in runs}


def _table(runs: list[Outcome]) -> TextTable:
    """Return every setting's own numbers, and how many of the paper's six each setting matches."""
    lines = []
    for row, paper in PAPER.items():
        lines.append((", ".join(row), "the paper", *map(short, paper), ""))
        for setting in settings_of(where(runs, row=row)):
            found = {one["size"]: one["accuracies"] for one in where(runs, row=row, **setting)}
            verdicts = [inside(scores, paper[j] - SAME, paper[j] + SAME) for j, scores in _placed(found)]
            untold = f", {verdicts.count(None)} undecided" if None in verdicts else ""
            cells = (spread(found[size]) if size in found else "" for size in SIZES)
            lines.append((", ".join(row), named(setting), *cells, f"{verdicts.count(True)} of {len(found)}{untold}"))
    columns = ("problem", "setting", *(f"{size}" for size in SIZES), f"within {SAME}")
    return TextTable(
        "Accuracy by samples per client and round, mean ± standard deviation over seeds", columns, tuple(lines)
    )


def _placed(found: dict[int, Scores]) -> list[tuple[int, Scores]]:
    """Return the scores of each size, with the size's place in the paper's row."""
    return [(SIZES.index(size), scores) for size, scores in found.items()]


def _plots(runs: list[Outcome]) -> tuple[Plot, ...]:
    panels = []
    for row, paper in PAPER.items():
        lines = [Line("the paper", SIZES, paper, colour=6, style="", marker="D")]
        for setting in settings_of(where(runs, row=row)):
            found = sorted(where(runs, row=row, **setting), key=lambda one: int(one["size"]))
            sizes = [one["size"] for one in found]
            lines.append(score_line(named(setting), sizes, found, **look_of(setting)))
        panels.append(
            Panel(
                f"{row[0]}, {row[1]}", "samples per client and round", "accuracy on the test part", tuple(lines), "log"
            )
        )
    caption = "Accuracy after 20,000 gradients with constant sample sizes, eta = 0.0025; bands from least to largest of the seeds"
    return (Plot("constant-sizes", caption, tuple(panels)),) if where(runs) else ()


EXPERIMENT = Experiment(
    name="constant-sizes",
    title="The table: constant sample sizes",
    where="appendix E.2.1, table of constant sample sizes",
    about="Logistic regression, five clients, K = 20,000 gradients in all, constant step size 0.0025 and as many samples "
    "per client in every round. The experiment on LeNet-5 has the table's MNIST row.",
    jobs=jobs,
    findings=findings,
)
