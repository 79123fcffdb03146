"""Commands for privacy: `plan` noise for a budget, `account` for the epsilon spent, `audit` the claim."""

import math
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from crescendo.cli.common import AsJson, Overrides, one_sentence, print_json
from crescendo.errors import ConfigError

commands = typer.Typer(rich_markup_mode=None)
MOST_ROUNDS = 2**20  # the planner searches up to here; so many rounds of the first size cost more than any real run
MOST_RUNS = 10**6  # in one audit


@commands.command(
    "plan",
    epilog="\b\nExample: crescendo plan --epsilon 1 --delta 1e-7 --records 10000 --gradients 25000 --first-size 16",
)
def _plan(
    epsilon: Annotated[float, typer.Option(help="The epsilon that each client may spend.")],
    delta: Annotated[float, typer.Option(help="The delta of that epsilon.")],
    records: Annotated[int, typer.Option(help="N, the records of a client.")],
    gradients: Annotated[int, typer.Option(help="K, the gradients of a client over the whole run.")],
    first_size: Annotated[int | None, typer.Option(help="Records in the first round.")] = None,
    power: Annotated[
        float | None,
        typer.Option(
            help="The power by which sizes grow: 0 for constant, 1 for linear; by default the planner chooses."
        ),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="The number of rounds; by default as few as --max-share allows.")
    ] = None,
    max_share: Annotated[
        float | None, typer.Option(help="The largest share of a client's records in one round; by default 0.046.")
    ] = None,
    method: Annotated[
        Literal["tight", "paper"], typer.Option(help="Plan with the tight accountant, or by the paper's procedure.")
    ] = "tight",
    sigma_by_round: Annotated[
        bool, typer.Option("--sigma-by-round", help="Let noise differ from one size to the next: less in small rounds.")
    ] = False,
    r0: Annotated[
        float | None, typer.Option(help="The r0 of the paper's procedure; by default r0(sigma) or 1/e.")
    ] = None,
    write: Annotated[
        Path | None, typer.Option(help="Write the plan to this file, as [privacy] and [schedule] of a run file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Choose round sizes, rounds and noise for a budget."""
    with one_sentence():
        from crescendo.config.plan_file import PlanFile

        target = PlanFile(write) if write is not None else None
        if r0 is not None and not 0 < r0 <= 1 / math.e:
            raise ConfigError(f"--r0 must lie above 0 and at most 1/e = {1 / math.e:.6f}, not {r0:g}")
        if first_size is not None and 0 < first_size < gradients / MOST_ROUNDS:
            least = math.ceil(gradients / MOST_ROUNDS)
            raise ConfigError(f"--first-size must be {least:,} or more for {gradients:,} gradients, not {first_size:,}")

        from crescendo.cli.show import show_privacy as show
        from crescendo.cli.show.show_plan import plan as show_plan
        from crescendo_dp.planning.budget_to_schedule import plan as make_plan

        with show.progress("Planning") as progress:
            found = make_plan(
                epsilon,
                delta,
                records,
                gradients,
                first_size,
                power,
                rounds,
                max_share,
                method,
                r0=r0,
                sigma_by_round=sigma_by_round,
                progress=progress,
            )
        if target is not None:
            target.write(found, stated=epsilon)
        if as_json:
            print_json({**found.to_json(), "written": None if write is None else str(write)})
        else:
            show_plan(found, epsilon, write)


@commands.command(
    "account",
    epilog="\b\nExample: crescendo account examples/flights.toml\nExample: crescendo account runs/first runs/second",
)
def _account(
    named: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE.toml|RUN|EVENTS.json]...",
            help="A run file, the folder of a run, or a file of events; several run files or runs are added up.",
        ),
    ] = None,
    delta: Annotated[float | None, typer.Option(help="The delta to account at; by default the stated one.")] = None,
    ledger: Annotated[Path | None, typer.Option(metavar="FILE", help="A data set's ledger, in place of a run.")] = None,
    close: Annotated[
        str | None,
        typer.Option(
            metavar="FEDERATION",
            help="Close this federation in the ledger for good, and free the epsilon that it has not spent.",
        ),
    ] = None,
    registry: Annotated[
        bool, typer.Option("--registry", help="List the data sets and ledgers that this user has used on this machine.")
    ] = False,
    register: Annotated[
        Path | None,
        typer.Option(metavar="LEDGER", help="Register this ledger as one for records that no registered ledger has."),
    ] = None,
    forget: Annotated[
        Path | None,
        typer.Option(metavar="LEDGER", help="Remove this ledger and its records from the registry."),
    ] = None,
    export: Annotated[
        Literal["dp-accounting", "opacus"] | None, typer.Option(help="Print the events for this library instead.")
    ] = None,
    client: Annotated[str | None, typer.Option(help="The client whose events to export, if clients differ.")] = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Show the privacy cost of a run, of other libraries' events or of a data set's ledger, or export the events."""
    with one_sentence():
        files = named or []
        if registry or register is not None or forget is not None:
            alone = (registry, register is not None, forget is not None).count(True) == 1
            if not alone or files or overrides or (delta, ledger, close, export, client) != (None,) * 5:
                raise ConfigError("--registry, --register LEDGER and --forget LEDGER each go alone, or with --json")
            _registry(register, forget, as_json)
        elif len(files) > 1:
            if ledger is not None or close is not None or export is not None or client is not None or overrides:
                raise ConfigError("several runs are added up unchanged; leave out all options but --delta and --json")
            _add_up(files, delta, as_json)
        else:
            what = files[0] if files else None
            _check_one(what, ledger, client, export, overrides or [])
            if close is not None:
                _close(ledger, close, delta is not None or export is not None, as_json)
            elif export is not None:
                _export(what, ledger, overrides or [], delta, export, client)
            elif ledger is not None:
                _ledger(ledger, delta, as_json)
            elif what is not None:
                _state(what, overrides or [], delta, as_json)


def _check_one(
    what: Path | None, ledger: Path | None, client: str | None, export: str | None, overrides: list[str]
) -> None:
    """Refuse anything but one run file, run, file of events or ledger, and options that are not for it."""
    if (what is None) == (ledger is None):
        raise ConfigError("name one thing to account for: a run file, the folder of a run, --ledger FILE or --registry")
    if client is not None and (export is None or what is None):
        raise ConfigError("--client selects the events that --export prints of a run; leave --client out here")
    if overrides and what is not None and (what.is_dir() or _holds_events(what)):
        raise ConfigError(
            "--set changes a run file, and this is not one; for a run, name its config.toml instead of its folder"
        )


def _state(what: Path, overrides: list[str], delta: float | None, as_json: bool) -> None:
    """Print the privacy cost of one run file, run or file of events."""
    from crescendo.cli.show import show_privacy as show
    from crescendo.runs.statements import Statement

    with show.progress("Accounting") as progress:
        found = _statement(what, overrides, delta, progress)
    if as_json:
        print_json(found.to_json())
    else:
        printer = show.PrivacyPrinter()
        printer.statement(found) if isinstance(found, Statement) else printer.events(found)


@commands.command(
    "audit",
    epilog="\b\nExample: crescendo audit examples/flights.toml --runs 1000"
    "\nExample: crescendo audit examples/audit_flower_mod.py:LocalDp --epsilon 3 --delta 1e-5",
)
def _audit(
    what: Annotated[
        str,
        typer.Argument(
            metavar="FILE.toml|FILE.py:NAME", help="A run file, or any mechanism (records, rng) -> release."
        ),
    ],
    runs: Annotated[
        int | None,
        typer.Option(
            min=20,
            help="Releases to draw: for each test of a run file (by default 400), or in all for a mechanism. More draws find "
            "smaller violations.",
        ),
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="The epsilon that FILE.py:NAME claims.")] = None,
    delta: Annotated[float | None, typer.Option(help="The delta of that epsilon.")] = None,
    records: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Example records: .npz, .npy or .csv, a row for each.")
    ] = None,
    shape: Annotated[str | None, typer.Option(metavar="N,D", help="Make up N records of D numbers instead.")] = None,
    neighbours: Annotated[
        Literal["add", "replace"] | None, typer.Option(help="One record added or removed (add), or replaced.")
    ] = None,
    gaussian: Annotated[
        bool,
        typer.Option("--gaussian", help="The releases are Gaussian, so compute their tails instead of counting them."),
    ] = False,
    floats: Annotated[bool, typer.Option("--floats", help="Attack the last bits of its floats as well.")] = False,
    seconds: Annotated[
        float, typer.Option(help="Without --runs, draw for about so many seconds of an idle processor.")
    ] = 20.0,
    confidence: Annotated[
        float | None,
        typer.Option(help="The confidence needed to call a claim false; by default 0.999, with --canaries 0.95."),
    ] = None,
    canaries: Annotated[
        int | None,
        typer.Option(
            metavar="M", help="Train once, with M canaries among a client's records, and guess which were in."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the attack and of the mechanism's rng.")] = 0,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="For a run file, test ten times as much of everything.")
    ] = False,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Attack the mechanism of a run file, or any in a Python file; exit code 1 if the claimed epsilon is false."""
    with one_sentence():
        if what.endswith(".py"):
            raise ConfigError(f"{what} is a Python file; name the mechanism in it too: {what}:NAME")
        if ".py:" in what:
            if epsilon is None or delta is None:
                raise ConfigError(f"give the epsilon and delta that {what} claims with --epsilon and --delta")
            if overrides or canaries is not None:
                option = "--set changes" if overrides else "--canaries are for"
                raise ConfigError(f"{option} a run file, and this is a mechanism; leave {option.split()[0]} out")

            from crescendo.cli.show.show_black_box import audit_mechanism
            from crescendo_dp.black_box.attack import Claim

            claim = Claim(epsilon, delta, 0.999 if confidence is None else confidence, gaussian=gaussian, floats=floats)
            passed = audit_mechanism(
                what,
                claim,
                as_json,
                records=records,
                shape=shape,
                neighbours=neighbours,
                runs=runs,
                seconds=seconds,
                seed=seed,
            )
        else:
            if (epsilon, delta, records, shape, neighbours) != (None,) * 5 or gaussian or floats:
                raise ConfigError(
                    "a run file states its own claim; leave out --epsilon, --delta, --records, --shape, --neighbours, "
                    "--gaussian and --floats, which are for FILE.py:NAME"
                )
            if canaries is not None:
                if runs is not None or thorough:
                    raise ConfigError("--canaries trains once; leave --runs and --thorough out")

                from crescendo.cli.show.show_canaries import audit_canaries

                sure = 0.95 if confidence is None else confidence
                passed = audit_canaries(Path(what), overrides or [], canaries, sure, seed, as_json)
            else:
                passed = _audit_run_file(Path(what), 400 if runs is None else runs, overrides or [], thorough, as_json)
        if not passed:
            raise typer.Exit(1)


def _audit_run_file(file: Path, runs: int, overrides: list[str], thorough: bool, as_json: bool) -> bool:
    from crescendo.config.loading import read

    if runs > MOST_RUNS:
        raise ConfigError(f"--runs must be at most {MOST_RUNS:,}, not {runs:,}")
    config = read(file, overrides)

    from crescendo.cli.show import show_privacy as show
    from crescendo.runs.auditing import attack

    with show.progress("Attacking") as progress:
        found = attack(config, str(file), runs, thorough, progress)
    if as_json:
        print_json(found.to_json())
    else:
        show.PrivacyPrinter().audited(found)
    return found.passed


def _add_up(named: list[Path], delta: float | None, as_json: bool) -> None:
    """Print the privacy cost of several run files or runs together."""
    from crescendo.cli.show import show_privacy as show
    from crescendo.runs.added_runs import AddedRuns

    for one in named:
        if _holds_events(one):
            raise ConfigError(f"{one} has events without clients; only run files and folders of runs are added up")
    for place, one in enumerate(named):
        if one.resolve() in {other.resolve() for other in named[:place]}:
            raise ConfigError(f"{one} is named twice; name each run once")
    with show.progress("Accounting") as progress:
        found = AddedRuns.of([_statement(one, [], delta, progress) for one in named], progress)
    if as_json:
        print_json(found.to_json())
    else:
        show.PrivacyPrinter().added(found)


def _ledger(path: Path, delta: float | None, as_json: bool) -> None:
    """Print what a ledger has promised and charged."""
    from crescendo.cli.show import show_privacy as show
    from crescendo.storage.ledger.open_ledger import open_ledger

    if delta is not None:
        raise ConfigError("a ledger's delta was set with its budget and cannot be changed; leave --delta out")
    with open_ledger(path, read_only=True) as found:
        summary = found.summary()
    if as_json:
        print_json({"ledger": str(path), **summary})
    else:
        show.PrivacyPrinter().ledger(summary)


def _registry(register: Path | None, forget: Path | None, as_json: bool) -> None:
    """List the registered ledgers, register one, or forget one."""
    from crescendo.storage.registry.registry_upkeep import forget_ledger, register_apart, registered_ledgers

    if register is None and forget is None:
        known = registered_ledgers()
        if as_json:
            print_json(known)
        else:
            from crescendo.cli.show.show_registry import RegistryPrinter

            RegistryPrinter().registry(known)
        return
    says = register_apart(register) if register is not None else forget_ledger(forget or Path())
    print_json({"says": says}) if as_json else typer.echo(says)


def _close(path: Path | None, federation: str, more: bool, as_json: bool) -> None:
    """Close a federation in a ledger."""
    from crescendo.cli.show import show_privacy as show
    from crescendo.storage.ledger.closing import close_federation

    if path is None or more:
        raise ConfigError("--close FEDERATION goes with --ledger FILE and no other option")
    found = close_federation(path, federation)
    if as_json:
        print_json({"ledger": str(path), **found.to_json()})
    else:
        show.PrivacyPrinter().closed(found.says, found.after)


def _export(
    what: Path | None, ledger: Path | None, overrides: list[str], delta: float | None, format: str, client: str | None
) -> None:
    """Print the events of a run, of a file or of a ledger for another library."""
    if delta is not None:
        raise ConfigError("--export prints events, which have no delta; leave --delta out")

    from crescendo.cli.show.show_privacy import progress
    from crescendo.storage.ledger.open_ledger import open_ledger
    from crescendo_dp.interchange import WRITERS, Foreign

    if ledger is not None:
        with open_ledger(ledger, read_only=True) as opened:
            events = opened.charged()
    elif what is not None and _holds_events(what):
        events = Foreign.of_file(what).events
    else:
        assert what is not None
        with progress("Accounting") as moved:
            events = _statement(what, overrides, None, moved).events_of(client)
    print_json(WRITERS[format](events))


def _statement(what: Path, overrides: list[str], delta: float | None, progress: Any) -> Any:
    from crescendo.runs.statements import Statement

    if what.is_dir():
        return Statement.of_run(what, delta, progress)

    if _holds_events(what):
        from crescendo.runs.statements import EventsStatement

        return EventsStatement.of_file(what, delta, progress)

    if not what.exists():
        raise ConfigError(f"{what} is neither a run file nor the folder of a run; check the path")

    from crescendo.config.loading import read

    return Statement.of_file(read(what, overrides), str(what), delta, progress)


def _holds_events(what: Path) -> bool:
    """Return whether the path is a file of events, judged by its name: run files are TOML."""
    return what.suffix == ".json" and not what.is_dir()
