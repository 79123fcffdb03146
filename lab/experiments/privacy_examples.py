"""The paper's five privacy examples: every printed number computed again, with a tight accountant's answer."""

from __future__ import annotations

from typing import Any

from lab.experiments.printed_examples import ERRORS, FORMULAS, TIGHT, PrintedValue
from lab.pipeline.experiment import Effort, Experiment, Findings, Job, Outcome, PaperStatement, TextTable

GROUPS = {"formulas": FORMULAS, "errors": ERRORS}
OURS = (  # these values are not in the paper
    "smallest sigma of r0(sigma)",
    "Example 3: fixed point of m/T",
    "Example 3: budget there",
    "Example 3: delta there",
)
PRINTED_WRONG = {  # the wrong value of the paper, and the row with the true one
    "r0(5) (the paper prints 0.0202)": "0.0202",
    "Example 1: that delta at epsilon = 6": "6.345773389117e-8",
    "Example 3: its T = 195 is 183 for K = 25,000": "195",
    "Example 3: sqrt(193) * 8, printed as 112": "112",
    "Example 4: with r0/8, as it should be": "2.57106713",
    "Example 4: its delta 6.2e-5 with the true T": "6.24e-5",
}
RULE = "A number held if ours, rounded to the digits that the paper prints, is the paper's."


def values(group: str) -> dict[str, Any]:
    """Compute each row of a group."""
    return {"group": group, "values": {row.what: row.compute() for row in GROUPS[group]}}


def tight_value(what: str) -> dict[str, Any]:
    return {"value": next(row for row in TIGHT if row.what == what).compute()}


def jobs(effort: Effort) -> list[Job]:
    """List one job for each group; a quick run leaves out the accountant's rows, which take seconds each."""
    found = [Job(values, {"group": group}) for group in GROUPS]
    return found if effort.quick else [*found, *(Job(tight_value, {"what": row.what}) for row in TIGHT)]


def findings(outcomes: list[Outcome]) -> Findings:
    known = {name: value for one in outcomes if "group" in one for name, value in one["values"].items()}
    tight = {one["what"]: one["value"] for one in outcomes if "what" in one}
    shown = [
        row for row in (*FORMULAS, *ERRORS) if row.what in OURS or (row in ERRORS and row.what not in PRINTED_WRONG)
    ]
    ours = tuple((row.what, _as_shown(row, known[row.what])) for row in shown)
    rest = tuple((row.what, _as_shown(row, tight[row.what])) for row in TIGHT if row.what in tight)
    tables = [TextTable("About the paper's formulas, not printed in it", ("what", "value"), ours)]
    if rest:
        tables.append(TextTable("What a tight accountant says of the same runs", ("what", "value"), rest))
    return Findings(RULE, tuple(statements(outcomes)), tuple(tables))


def statements(outcomes: list[Outcome]) -> list[PaperStatement]:
    known = {name: value for one in outcomes if "group" in one for name, value in one["values"].items()}
    made = []
    for row in (*FORMULAS, *ERRORS):
        if row.what in PRINTED_WRONG or (row in FORMULAS and row.what not in OURS):
            printed = PrintedValue(row.what, PRINTED_WRONG.get(row.what, row.value), row.compute)
            number = known[row.what]
            held = int(printed.agrees(number))
            made.append(PaperStatement(row.what, printed.value, _as_shown(printed if held else row, number), held, 1))
    return made


def _as_shown(row: PrintedValue, number: float) -> str:
    """Return a number with as many digits as the row's own text.

    >>> _as_shown(PrintedValue("delta", "5.50e-8", lambda: 0.0), 5.5023e-8)
    '5.50e-8'
    >>> _as_shown(PrintedValue("T", "183", lambda: 0.0), 183.2)
    '183'
    """
    mantissa, exponent = row.value.partition("e")[0::2]
    digits = len(mantissa.partition(".")[2])
    return f"{number / 10.0 ** int(exponent):.{digits}f}e{exponent}" if exponent else f"{number:.{digits}f}"


EXPERIMENT = Experiment(
    name="privacy-examples",
    title="The privacy examples",
    where="section 5 and appendix D.3.2, examples 1 to 5",
    about="The paper plans five runs with its own theorems. The numbers of these plans that we use are computed again "
    "with its formulas as printed. [privacy_examples.md](privacy_examples.md) lists the errors.",
    jobs=jobs,
    findings=findings,
)
