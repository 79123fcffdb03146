"""The page of results, made from stored findings alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lab.pipeline.experiment import Experiment, PaperStatement
from lab.pipeline.stored_findings import StoredFindings

_HEAD = """# Results

`python -m lab reproduce` makes this page from the files in `{folder}/`; it is never edited by hand. Every experiment of the paper
runs again from the data. The page shows the paper's value, ours and the verdict. A statement is tried in every setting of its
experiment, and in each the 95% interval over seeds (Student's, of the differences seed by seed where two schemes are compared)
decides: the statement *held* if the whole interval meets it, *failed* if none of it does, and otherwise these seeds cannot tell.
A run that broke off counts as an accuracy of 0. Over all settings together a statement is

- *reproduced* if it held in all of them, *not reproduced* if it failed in all;
- *in part* if it held in some and failed in others;
- *undecided* otherwise: in some settings the seeds cannot tell, and they could turn the verdict. One seed can never tell.

An interval covers its own setting alone: among many statements, a few are judged wrongly by chance. Computed values, such as
numbers of rounds, have no interval. Each experiment defines "held". The margins are those of earlier versions of this page,
which judged by bare means. The paper leaves open whether clients' updates are summed or averaged, and how clients' clocks relate,
so both combinations and three timings are settings:

- **sum**, **mean**: the server adds the clients' updates, as the paper's Algorithm 3 has it, or takes their mean;
- **lock-step**: all clients compute at one speed and messages take no time; **staggered**: client c of n starts c/n of a round
  later; **heterogeneous**: speeds from 1 to 4 and log-normal latency.

Experiments whose section says so have the runs of an earlier version, which stored too little for intervals of differences.
`python -m lab reproduce all` leaves out the experiments with neural networks and others as long, which run by name. On one
machine a rerun of the same code gives the same files, byte for byte.

The source of the paper has no figures; its sentences about them take their place.
"""
_QUICK = (
    "**From a quick run, with few seeds and stand-ins for absent data: a check that everything works, not a result.**\n"
)
_VERDICTS = ("reproduced", "in part", "not reproduced", "undecided", "data not present")


def results_page(stored: Sequence[StoredFindings], experiments: Sequence[Experiment], folder: str) -> str:
    """Return the page, its sections in the order of ``experiments``. Links to figures begin with ``folder``."""
    by_name = {one.name: one for one in stored}
    shown = [(one, by_name[one.name]) for one in experiments if one.name in by_name]
    lines = [_HEAD.format(folder=folder)]
    if any(found.quick for _, found in shown):
        lines.append(_QUICK)
    lines.append("## Summary\n")
    lines += markdown_table(("experiment", "in the paper", "seeds", *_VERDICTS), (_counts(*pair) for pair in shown))
    if missing := [one.name for one in experiments if one.name not in by_name]:
        lines.append(f"\nNot run, and so not on this page: {', '.join(missing)}.")
    for experiment, found in shown:
        lines += ["", *_section(experiment, found, folder)]
    return "\n".join(lines) + "\n"


def _counts(experiment: Experiment, stored: StoredFindings) -> tuple[str, ...]:
    verdicts = [one.verdict.partition(":")[0] for one in stored.findings.statements]
    numbers = (str(verdicts.count(word) or "") for word in _VERDICTS)
    return (f"[{experiment.title}](#{_anchor(experiment.title)})", experiment.where, _many(stored.seeds), *numbers)


def _section(experiment: Experiment, stored: StoredFindings, folder: str) -> list[str]:
    found = stored.findings
    lines = [
        f"## {experiment.title}\n",
        experiment.about,
        "",
        f"`python -m lab reproduce {experiment.name}`. {found.rule}",
    ]
    if stored.seeds:
        lines[-1] += f" {_named_seeds(stored.seeds)}"
    if stored.absent:
        lines.append(f"\nData not present: {', '.join(stored.absent)}.")
    if found.statements:
        lines += ["", *_statements(found.statements)]
    for plot in found.plots:
        path = f"{folder}/{plot.name}"
        lines += ["", f"![{plot.caption}]({path}.svg)", "", f"*{plot.caption}* ([PNG]({path}.png))"]
    for table in (one for one in found.tables if one.rows):
        lines += ["", f"{table.title}:\n", *markdown_table(table.columns, table.rows)]
    if found.remarks:
        lines += ["", *(f"- {remark}" for remark in found.remarks)]
    return lines


def _many(seeds: Sequence[int]) -> str:
    return str(len(seeds)) if seeds else "none needed"


def _named_seeds(seeds: Sequence[int]) -> str:
    """
    >>> _named_seeds((0, 1, 2)), _named_seeds((7,))
    ('Seeds 0 to 2.', 'One seed: 7.')
    """
    return f"Seeds {seeds[0]} to {seeds[-1]}." if len(seeds) > 1 else f"One seed: {seeds[0]}."


def _statements(found: Sequence[PaperStatement]) -> list[str]:
    why = any(one.why for one in found)
    rows = [(one.what, one.paper, one.ours, one.verdict, *([one.why] if why else [])) for one in found]
    return markdown_table(("what", "the paper", "ours", "verdict", *(["why"] if why else [])), rows)


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """
    >>> markdown_table(("a", "b"), [("1", "2 | 3")])
    ['| a | b |', '|---|---|', '| 1 | 2 \\\\| 3 |']
    """
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (columns, *rows)]
    return [lines[0], "|" + "---|" * len(columns), *lines[1:]]


def _anchor(title: str) -> str:
    """Return the anchor of a heading.

    >>> _anchor("Rounds against K: the sqrt(K) law")
    'rounds-against-k-the-sqrtk-law'
    """
    return "".join(letter for letter in title.lower().replace(" ", "-") if letter.isalnum() or letter == "-")
