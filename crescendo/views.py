"""Views: facts as lines of text and as a plain HTML table, for what a notebook shows. No colours, so light and dark both read."""

import html
from collections.abc import Iterable, Sequence

Rows = Sequence[Sequence[str]]


def text_table(rows: Rows) -> str:
    """Columns below each other; all but the first and the last are numbers and stand to the right.

    >>> print(text_table([("rounds", "9", "that grow"), ("accuracy", "0.8412", "on the test part")]))
    rounds         9  that grow
    accuracy  0.8412  on the test part
    """
    wide = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    last = len(wide) - 1
    return "\n".join(
        "  ".join(
            cell if at == last and at else f"{cell:<{wide[at]}}" if not at else f"{cell:>{wide[at]}}"
            for at, cell in enumerate(row)
        ).rstrip()
        for row in rows
    )


def html_table(rows: Rows, head: Sequence[str] = ()) -> str:
    """The same for a notebook; whatever the cells hold is text, not markup.

    >>> html_table([("a", "<b>")])
    "<table><tr><td style='text-align:left'>a</td><td style='text-align:left'>&lt;b&gt;</td></tr></table>"
    """
    named = "<tr>" + "".join(f"<th>{html.escape(cell)}</th>" for cell in head) + "</tr>" if head else ""
    return f"<table>{named}{''.join(map(_html_row, rows))}</table>"


def _html_row(row: Sequence[str]) -> str:
    last = len(row) - 1
    return (
        "<tr>"
        + "".join(
            f"<td style='text-align:{'right' if 0 < at < last else 'left'}'>{html.escape(cell)}</td>"
            for at, cell in enumerate(row)
        )
        + "</tr>"
    )


def html_lines(lines: Iterable[str]) -> str:
    """Sentences, a paragraph each.

    >>> html_lines(["1 < 2"])
    '<p>1 &lt; 2</p>'
    """
    return "".join(f"<p>{html.escape(line)}</p>" for line in lines)
