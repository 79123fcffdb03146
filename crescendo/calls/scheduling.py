"""`crescendo.schedule`: a run's rounds, certificate and privacy cost, without running it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack, overload

from crescendo.calls.asked_run import AskedRun, Data, Rows, RunFile
from crescendo.calls.keywords import RunKeys, spelled_out
from crescendo.config.schema import Config
from crescendo.federation.agreement import Agreement
from crescendo.privacy.guarantee import Guarantee
from crescendo.privacy.protection import HIDDEN, Withheld
from crescendo.runs.prepare import prepare
from crescendo.schedules import ScheduleCertificate
from crescendo.views import html_lines, html_table, plotted, text_table

_FIRST = 12  # rounds that are shown


@dataclass(frozen=True, eq=False, repr=False)
class CertifiedRun:
    """A run that is certified but not started."""

    config: Config
    agreement: Agreement
    privacy: Guarantee | Withheld | None

    @property
    def certificate(self) -> ScheduleCertificate:
        """The certificate of the schedule."""
        return self.agreement.schedule

    @property
    def rounds(self) -> int:
        return self.agreement.terms.rounds

    @property
    def sizes(self) -> list[int]:
        """The gradients of each round, over all clients."""
        return [self.agreement.terms.sizes(i) for i in range(self.rounds)]

    @property
    def steps(self) -> list[float]:
        """The step size at the start of each round."""
        terms = self.agreement.terms
        return [float(terms.steps.at(terms.before(i))) for i in range(self.rounds)]

    def __repr__(self) -> str:
        terms, sizes = self.agreement.terms, self.sizes
        made = self.privacy
        epsilon = (
            "" if made is None else f", epsilon={made.epsilon:.4g}" if isinstance(made, Guarantee) else f", {HIDDEN}"
        )
        return (
            f"CertifiedRun(rounds={terms.rounds}, sizes={sizes[0]} to {max(sizes)}, gradients={sum(sizes)}, "
            f"clients={terms.clients}{epsilon})"
        )

    def _rows(self) -> list[tuple[str, str, str, str]]:
        shown = zip(range(min(_FIRST, self.rounds)), self.sizes, self.steps, strict=False)
        return [(str(i), f"{size:,}", f"{self.agreement.terms.before(i):,}", f"{step:.6g}") for i, size, step in shown]

    def _sentences(self) -> list[str]:
        costs = [] if self.privacy is None else [repr(self.privacy), *self.privacy.sentences()]
        return [*self.certificate.notes, *self.agreement.stability.notes(), *costs]

    def _repr_html_(self) -> str:
        head = ("round", "gradients", "before it", "step size")
        return html_lines([repr(self)]) + html_table(self._rows(), head) + html_lines(self._sentences())

    def summary(self) -> str:
        """Return plain text: the certificate, the privacy cost, and the first rounds."""
        rows = text_table([("round", "gradients", "before it", "step size"), *self._rows()])
        return "\n".join([repr(self), *self._sentences(), rows])

    def plot(self) -> Any:
        """Return a plotly figure of the size of every round."""
        import plotly.graph_objects as go

        figure = plotted(go.Scatter(y=self.sizes, mode="lines", line_shape="hv", name="gradients"))
        figure.update_layout(title=repr(self), xaxis_title="round", yaxis_title="gradients over all clients")
        return figure


@overload
def schedule(
    config: RunFile,
    /,
    *,
    data: Data = None,
    objective: Any = None,
    overrides: Sequence[str] = (),
    **keys: Unpack[RunKeys],
) -> CertifiedRun: ...


@overload
def schedule(
    x: Rows,
    y: Any = None,
    /,
    *,
    objective: Any = None,
    name: str = "arrays",
    overrides: Sequence[str] = (),
    **keys: Unpack[RunKeys],
) -> CertifiedRun: ...


@spelled_out
def schedule(
    x: Any,
    y: Any = None,
    /,
    *,
    data: Data = None,
    objective: Any = None,
    name: str = "arrays",
    overrides: Sequence[str] = (),
    **keys: Unpack[RunKeys],
) -> CertifiedRun:
    """Return the certified run that `crescendo.simulate` would start with the same arguments, or raise its error.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> schedule(x, x[:, 0] > 0, clients=2, gradients=400, sizes={"kind": "power", "scale": 10})
    CertifiedRun(rounds=9, sizes=10 to 80, gradients=400, clients=2)
    """
    asked = AskedRun.of("schedule", x, y, data, objective, overrides, name, keys)
    prepared = prepare(asked.config, asked.objective, asked.data)
    return CertifiedRun(prepared.config, prepared.agreement, prepared.privacy)
