"""`crescendo.plan`: the planner of `crescendo_dp`, with a table and a figure of the plan for notebooks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import fields
from typing import Any, ParamSpec, Self

from crescendo.calls.foreign_words import in_a_sentence
from crescendo.views import html_lines, html_table, plotted
from crescendo_dp.planning import budget_to_schedule
from crescendo_dp.planning.schedule import Plan

_Asked = ParamSpec("_Asked")


class NotebookPlan(Plan):
    """A plan with a table for notebooks and a figure."""

    @classmethod
    def of(cls, found: Plan) -> Self:
        """Return the same plan with its notebook views."""
        return cls(**{field.name: getattr(found, field.name) for field in fields(found)})

    def _repr_html_(self) -> str:
        facts = [
            (
                "rounds",
                f"{self.rounds:,}",
                f"of {self.sizes.first:,} to {self.sizes.last:,} out of {self.records:,} records",
            ),
            ("sigma", f"{self.sigma:.4g}", "noise of a round, over what one record can change"),
            ("epsilon", f"{self.epsilon:.4g}", f"at delta {self.delta:g}, by the tight accountant"),
        ]
        family = [
            (
                one.name,
                f"{one.rounds:,}",
                f"{one.sigma:.4g}",
                f"{one.aggregated_noise:.4g}",
                "chosen" if one.chosen else "",
            )
            for one in self.family
        ]
        others = html_table(family, ("sizes", "rounds", "sigma", "aggregated noise", "")) if family else ""
        return html_table(facts) + html_lines(self.meaning().sentences()) + others + html_lines(self.notes)

    def plot(self) -> Any:
        """Return the size of every round as a plotly figure."""
        import plotly.graph_objects as go

        figure = plotted(go.Scatter(y=self.per_round, mode="lines", line_shape="hv", name="records"))
        figure.update_layout(title=repr(self), xaxis_title="round", yaxis_title="records expected in a round")
        return figure


def _shown(make: Callable[_Asked, Plan]) -> Callable[_Asked, NotebookPlan]:
    @functools.wraps(make)
    def made(*given: _Asked.args, **keys: _Asked.kwargs) -> NotebookPlan:
        return NotebookPlan.of(make(*given, **keys))

    return made


plan = in_a_sentence("plan")(_shown(budget_to_schedule.plan))
