"""Figures of a private run: the epsilon spent after each round, and the success of the best attack."""

from __future__ import annotations

from typing import Any

from crescendo.report.figures.plain import Figure, end, figure, line, rounds_axis, shown_name
from crescendo.report.numbers import digits
from crescendo.report.privacy_story import PrivacyStory
from crescendo_dp.meaning.odds_and_attacks import percent

COLOURS = ("@accent", "@second", "@third", "@fourth", "@fifth", "@sixth", "@seventh", "@eighth")


def spending(story: PrivacyStory) -> Figure:
    """Draw upper bounds on epsilon after each round, with a dot for the tight accountant's epsilon at the end."""
    lines, ends = [], []
    for j, course in enumerate(story.courses):
        colour, last = COLOURS[j % len(COLOURS)], course.epsilons[-1]
        name = f"{course.name} {'' if course.tight else '≤ '}{digits(last)}"
        hover = "%{fullData.name}: at most %{y:.4g} up to round %{x:,}"
        lines.append(line(story.rounds, course.epsilons, name, colour, hover))
        if course.tight:
            lines.append(_dot(story.rounds[-1], last, colour, course.name))
        ends.append(end(last, name, colour))
    if story.stated is not None and story.rounds:
        name = f"stated {story.stated:g}"
        across = [story.rounds[0], story.rounds[-1]]
        lines.append(line(across, [story.stated] * 2, name, "@ink", "stated: %{y:g}", dash="dash"))
        ends.append(end(story.stated, name, "@ink"))
    most = max((course.epsilons[-1] for course in story.courses), default=0.0)
    alt = f"Upper bounds on the epsilon that clients have spent after each round; the largest ends at {most:.4f}."
    axes = {"xaxis": rounds_axis(max(story.rounds, default=0)), "yaxis": {"rangemode": "tozero"}}
    return figure(lines, "round", alt=alt, ends=ends, **axes)


def _dot(x: int, y: float, colour: str, name: str) -> Figure:
    return {
        "type": "scatter", "mode": "markers", "x": [x], "y": [y], "marker": {"color": colour, "size": 8}, "showlegend": False,
        "cliponaxis": False, "name": shown_name(name),
        "hovertemplate": "%{fullData.name}, whole run: %{y:.4f}, tight<extra></extra>",
    }  # fmt: skip


def attacks(story: PrivacyStory) -> Figure:
    """Draw the share of present records that any attack can find, and that of guessing."""
    accused, most = story.attacks
    hover = "accusing %{x:.2%} of absent records: at most %{y:.2%} of present ones"
    best = line(accused[1:], most[1:], "best attack, at most", "@accent", hover, width=2.5)
    guess = line(accused[1:], accused[1:], "guessing", "@second", "guessing: %{y:.2%}", dash="dash")
    axis: dict[str, Any] = {"type": "log", "dtick": 1, "tickformat": "~%"}
    one = min(range(len(accused)), key=lambda j: abs(accused[j] - 0.01))
    alt = f"An attack that accuses {accused[one]:.1%} of absent records finds at most {most[one]:.2%} of present ones."
    return figure(
        [best, guess, _told(accused[one], most[one])],
        "absent records accused",
        alt=alt,
        xaxis=axis,
        yaxis=axis,
        showlegend=True,
    )


def _told(accused: float, found: float) -> Figure:
    """Return the point that the sentence above the figure describes."""
    return {
        "type": "scatter", "mode": "markers+text", "x": [accused], "y": [found], "marker": {"color": "@accent", "size": 8},
        "text": [f"{percent(found)} at {accused:.0%}"], "textposition": "bottom right",
        "textfont": {"size": 12, "color": "@accent"}, "showlegend": False, "hoverinfo": "skip",
    }  # fmt: skip
