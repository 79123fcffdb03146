"""Printers of `run`, `schedule` and `data list`: a progress bar during the work, tables at the end."""

import contextlib
import math
from collections.abc import Iterator

from rich.progress import TextColumn
from rich.text import Text

from crescendo import interrupts
from crescendo.cli.forecast import RunForecast, on_stderr
from crescendo.cli.terminal import Printer, new_table, progress_bar
from crescendo.config.schema import Config
from crescendo.core.terms import Terms
from crescendo.data import SourceInfo
from crescendo.federation.agreement import Agreement
from crescendo.federation.divergence import warning
from crescendo.privacy.guarantee import Guarantee
from crescendo.privacy.protection import Withheld
from crescendo.report.numbers import number, size, times
from crescendo.runs.prepare import Prepared
from crescendo.runs.result import Result, Row
from crescendo.runs.result_view import held_against, tested
from crescendo.runs.run_events import Event, ModelsMeasured, RoundCompleted, RunBegan, Sink, WithoutNoise
from crescendo.schedules.theory import ConstantRate, Theorem

FIRST_ROUNDS = 12
MOST_CLIENTS = 8


@contextlib.contextmanager
def progress(config: Config) -> Iterator[Sink]:
    """Show a progress bar with the round, the gradients and the accuracy."""
    with progress_bar(TextColumn("{task.fields[news]}")) as bar:
        task = bar.add_task(f"Reading {config.data.source}", total=None, news="")
        accuracy: float | None = None
        forecast = RunForecast(on_stderr(bar), "this run", "its first rounds")

        def show(event: Event) -> None:
            nonlocal accuracy
            interrupts.check()
            forecast(event)
            doing = "Training"
            if isinstance(event, WithoutNoise):
                doing, event = "Again without noise", event.event
            match event:
                case RunBegan(prepared):
                    for note in prepared.dataset.notes:
                        bar.console.print(Text(note), soft_wrap=True)
                    if (caution := warning(prepared.config.schedule.steps, prepared.step_room)) is not None:
                        bar.console.print(Text(f"Caution: {caution}."), soft_wrap=True)
                case ModelsMeasured(rows):
                    accuracy = rows[-1]["accuracy"]
                case RoundCompleted(moment, rounds):
                    news = f"round {moment.k:,} of {rounds:,}, {moment.gradients:,} gradients"
                    if accuracy is not None:
                        news += f", accuracy {accuracy:.3f}"
                    bar.update(task, description=doing, completed=moment.k, total=rounds, news=news)

        yield show


def _records(prepared: Prepared) -> int:
    test = prepared.dataset.test
    return len(prepared.dataset.train) + (0 if test is None else len(test))


def _privacy(found: Result) -> list[tuple[str, str, str]]:
    """Return the rows on privacy: the epsilon, the noise, and the accuracy that the noise cost."""
    made = found.prepared.privacy
    assert made is not None
    rows = [
        _epsilon(made, found.prepared.names),
        (
            "sigma",
            f"{made.certificate.sigma:.3g}",
            f"noise per round, {made.certificate.mechanism}; {made.aggregated_noise:.3g} over all rounds",
        ),
    ]
    if found.noise_free is not None and found.accuracy is not None:
        cost = found.noise_free["accuracy"] - found.accuracy
        rows.append(
            ("cost of noise", f"{cost:+.4f}", f"accuracy {number(found.noise_free['accuracy'])} without the noise")
        )
    return rows


def _epsilon(made: Guarantee | Withheld, names: tuple[str, ...]) -> tuple[str, str, str]:
    if isinstance(made, Withheld):
        return "epsilon", "withheld", "entries were read off the records; see below"
    stated = f"of {made.stated:g} stated; " if made.stated is not None else ""
    return "epsilon", f"{made.epsilon:.3f}", f"{stated}at delta {made.delta:g}, {names[made.costliest]} spends most"


def _sizes(prepared: Prepared) -> str:
    sizes = prepared.sizes
    first, largest = sizes(0), max(sizes(i) for i in range(max(0, sizes.rounds - 2), sizes.rounds))
    return f"{first:,} gradients each" if first == largest else f"from {first:,} to {largest:,} gradients"


def _first_rounds(terms: Terms, most: int = FIRST_ROUNDS) -> list[Row]:
    return [
        {
            "round": i,
            "gradients": terms.sizes(i),
            "before": terms.before(i),
            "step": float(terms.steps.at(terms.before(i))),
            "shares": terms.shares(i).tolist(),
        }
        for i in range(min(most, terms.rounds))
    ]


def _costs_as_json(privacy: Guarantee | Withheld, names: tuple[str, ...]) -> Row:
    made = privacy.certificate
    facts = {"mechanism": made.mechanism, "sigma": made.sigma.to_json(), "delta": privacy.delta}
    clients: list[Row] = [{"name": name, "records": many} for name, many in zip(names, made.records, strict=True)]
    if isinstance(privacy, Withheld):
        return {**facts, "epsilon": None, "stated_epsilon": None, "withheld": privacy.says, "clients": clients}
    for client, spent in zip(clients, privacy.spent, strict=True):
        client["epsilon"] = spent.epsilon
    return {**facts, "epsilon": privacy.epsilon, "stated_epsilon": privacy.stated, "clients": clients}


def schedule_as_json(agreement: Agreement, privacy: Guarantee | Withheld | None) -> Row:
    found, terms = agreement.schedule, agreement.terms
    return {
        "rounds": found.rounds,
        "gradients": found.gradients,
        "clients": terms.clients,
        "rule": found.rule,
        "conditions": [vars(one) for one in found.conditions],
        "consistent_delay": found.consistent_delay,
        "theorem_allows": found.theorem_allows,
        "theorem": None if found.theorem is None else _theorem_as_json(found.theorem),
        "constant_step": None if found.constant is None else _rate_as_json(found.constant),
        "stability": [
            {"late": one.late, "round": one.round, "curvature": one.curvature if math.isfinite(one.curvature) else None}
            for one in agreement.stability.limits
        ],
        "notes": [*found.notes, *agreement.stability.notes()],
        "first_rounds": _first_rounds(terms),
        "privacy": None if privacy is None else _costs_as_json(privacy, agreement.names),
    }


def _theorem_as_json(found: Theorem) -> Row:
    return {
        "m": found.m,
        "m1": found.m1,
        "blocks": found.blocks,
        "bounds": found.bounds,
        "bound_holds_from_log10": found.log_t0 / math.log(10) if math.isfinite(found.log_t0) else None,
    }


def _rate_as_json(found: ConstantRate) -> Row:
    return {"holds": found.holds, "delay": found.tau, "rho": found.rho, "spread": found.spread}


class RunPrinter(Printer):
    """Prints the result of a run, the schedule of a run file, and the list of data sets."""

    def result(self, found: Result) -> None:
        """Print the scores, the savings against constant rounds, the privacy, and the report's path."""
        prepared = found.prepared
        scores = tested(found.metrics[-1]) or [("accuracy", number(found.accuracy), "on the test part")]
        scores += [
            row for row in held_against(found.references) if row[0] != "without noise"
        ]  # a row below shows the cost of noise
        rows = [
            *scores,
            ("loss", number(found.loss), "on the training data, L2 included"),
            ("gradients", f"{found.gradients:,}", "over all clients"),
            ("rounds", f"{found.rounds:,}", _sizes(prepared)),
            ("sent", size(found.bytes_up), "by the clients"),
            ("received", size(found.bytes_down), f"by the clients, in {found.broadcasts:,} broadcasts"),
            ("rounds ahead", f"{found.max_rounds_ahead}", "at most, of the newest global model"),
            ("waits", f"{found.waits:,}", "times a client had to wait"),
            ("virtual time", f"{found.virtual_seconds:,.0f} s", f"simulated in {found.wall_seconds:.2f} s"),
        ]
        if "gradient_norm" in found.metrics[-1]:
            why = "mean squared norm of the gradient, over the models measured"
            rows.insert(2, ("gradient", number(found.metrics[-1]["averaged_squared_gradient"]), why))
        if found.max_delay_used is not None:
            rows.insert(-2, ("delay", f"{found.max_delay_used:.0%}", "of what tau allows, at most"))
        if prepared.privacy is not None:
            rows[len(scores) + 1 : len(scores) + 1] = _privacy(found)
            if prepared.dataset.left_out:
                why = f"used in training or testing; {prepared.dataset.left_out:,} are left out: incomplete, or of another class"
                rows.append(("records", f"{_records(prepared):,}", why))
        if (mapping := prepared.label_mapping) is not None:
            rows.append(("labels", f"{len(prepared.dataset.classes):,}", f"{mapping}, as the model sees them"))
        if "auc" in found.metrics[-1]:
            rows.insert(1, ("auc", number(found.metrics[-1]["auc"]), "on the test part"))
        self.facts(f"{prepared.dataset.name}, {prepared.terms.clients} clients", rows)
        if found.diverged is None:
            self._savings(found)
        if prepared.privacy is not None:
            self._means(prepared.privacy)
        if found.run is not None:
            self.print(Text(f"Report: {found.run}/report.html"), soft_wrap=True)

    def _means(self, privacy: Guarantee | Withheld) -> None:
        if isinstance(privacy, Withheld):
            self.say(privacy.says)
            return
        for sentence in privacy.meaning().sentences():
            self.say(sentence)
        for sentence in privacy.cautions():
            self.say(f"caution: {sentence}")
        self.print(privacy.disclaimer, highlight=False, soft_wrap=True)

    def _savings(self, found: Result) -> None:
        constant = found.constant
        if constant.rounds == found.rounds:  # the rounds did not grow
            return
        table = new_table("Rounds that grow, against constant ones", "same gradients")
        for name in ("this run", f"constant rounds of {constant.size:,}", ""):
            table.add_column(name, justify="right")
        table.add_row("rounds", f"{found.rounds:,}", f"{constant.rounds:,}", times(constant.rounds, found.rounds))
        ours, theirs = found.bytes_up + found.bytes_down, constant.bytes_up + constant.bytes_down
        table.add_row("bytes", size(ours), size(theirs), times(theirs, ours))
        self.print(table)
        self.say(f"the constant rounds are {constant.why}; they were computed, not run")

    def schedule(self, agreement: Agreement, privacy: Guarantee | Withheld | None) -> None:
        """Print the certificate with both sides of every condition, the cost in privacy, and the first rounds."""
        found, terms = agreement.schedule, agreement.terms
        self.print(
            f"{found.rounds:,} rounds, {found.gradients:,} gradients, {terms.clients} clients, "
            f"waiting by {'rounds' if found.rule == 'd' else 'tau'}",
            highlight=False,
        )
        if found.conditions:
            table = new_table("Certificate")
            for name in ("condition", "round", "left", "", "right", ""):
                table.add_column(name, justify="right" if name in ("round", "left", "right") else "left")
            for one in found.conditions:
                place = "" if one.round is None else f"{one.round:,}"
                verdict = "holds" if one.holds else "does not hold"
                table.add_row(one.name, place, f"{one.left:,.6g}", one.relation, f"{one.right:,.6g}", verdict)
            self.print(table)
        for note in (*found.notes, *agreement.stability.notes()):
            self.print(note, highlight=False, soft_wrap=True)
        if privacy is not None:
            self._costs(privacy, agreement.names)
        table = new_table("First rounds", "round", "gradients", "before it", "step size", left=0)
        table.add_column("per client", justify="right")
        for row in _first_rounds(terms):
            shares = ", ".join(f"{share:,}" for share in row["shares"][:8]) + (", .." if len(row["shares"]) > 8 else "")
            table.add_row(
                f"{row['round']}", f"{row['gradients']:,}", f"{row['before']:,}", f"{row['step']:.6g}", shares
            )
        self.print(table)

    def _costs(self, privacy: Guarantee | Withheld, names: tuple[str, ...]) -> None:
        """Print the noise of a round, and the epsilon of the whole run for the clients that spend most."""
        made = privacy.certificate
        self.say(f"the noise of a round has sigma {made.sigma:.4g} ({made.mechanism})")
        if isinstance(privacy, Withheld):
            self.say(privacy.says)
            return
        stated = "" if privacy.stated is None else f", of {privacy.stated:g} stated"
        self.say(f"the whole run costs epsilon {privacy.epsilon:.4f} at delta {privacy.delta:g}{stated}")
        table = new_table("Who spends most", "records", "epsilon", left=0, names=["client"])
        most = sorted(range(len(names)), key=lambda c: -privacy.spent[c].epsilon)
        for c in most[:MOST_CLIENTS]:
            table.add_row(Text(names[c]), f"{made.records[c]:,}", f"{privacy.spent[c].epsilon:.4f}")
        self.print(table)
        if len(most) > MOST_CLIENTS:
            self.say(f"and {len(most) - MOST_CLIENTS:,} clients that spend no more")

    def sources(self, found: list[SourceInfo]) -> None:
        table = new_table(None, "name", "records", "features")
        table.add_column("here")
        table.add_column("what it is", overflow="fold")
        for one in found:
            rows, features = (f"{count:,}" if count is not None else "" for count in (one.rows, one.features))
            table.add_row(one.name, rows, features, "yes" if one.here else "no", Text(one.about))
        self.print(table)
        ways: dict[str, list[str]] = {}
        for one in found:
            if not one.here:
                ways.setdefault(one.comes_from.replace(one.name, "NAME"), []).append(one.name)
        for way, names in ways.items():
            self.say(f"To get {', '.join(names)}: {way}")
