"""Statements of the privacy that clients spend, by the tight accountant and by the paper's theorems.

A statement is made for a run file, a run folder or a file of events.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from crescendo.config.schema import Config
from crescendo.errors import ConfigError, DataError, UsageError
from crescendo.privacy.cautions import cautions
from crescendo.privacy.guarantee import REMINDER
from crescendo.privacy.protection import Withheld
from crescendo.runs.folder import RUNNING, check_format
from crescendo_dp.accounting.epsilon import Progress, Spent, account, check_delta
from crescendo_dp.directed_rounding import down
from crescendo_dp.events import Counted, from_json, tally, to_json
from crescendo_dp.interchange import Foreign
from crescendo_dp.meaning.odds_and_attacks import Meaning
from crescendo_dp.paper.envelope import by_theorems
from crescendo_dp.paper.theorems import Verdict
from crescendo_dp.planning.cautions import PERSONS, about_delta
from crescendo_dp.planning.sigmas import Sigmas

MOST_TIGHT = 8  # up to so many plans get the tight accountant and the theorems; of more, only the costliest
SPENDS = "this is the cost of one run; other runs on the same records add to it"
PLANNED = (
    "the plan guarantees this in a real federation, whose noise comes from the operating system; the noise of a "
    "simulation comes from the seed and protects nobody"
)
SAYS_OF_EVENTS = (
    "not certified by Crescendo: this holds if the events describe the actual run, every record was drawn independently, and "
    "neighbours differ by one record added or removed"
)
NOTHING = "no privacy is claimed: privacy.mechanism is none, so the clients' updates may reveal everything"


@dataclass(frozen=True)
class ClientAccount:
    """A client's releases and their cost. The theorems are left out if there are too many plans."""

    name: str
    records: int
    events: Counted
    spent: Spent
    theorems: tuple[Verdict, ...]

    @classmethod
    def of_all(
        cls, clients: Sequence[tuple[str, int, Counted]], delta: float, progress: Progress | None = None
    ) -> tuple[Self, ...]:
        """Account for each client, given by its name, records and events, at ``delta``.

        Equal plans are accounted for once. Of many plans, only the costliest gets the tight accountant.
        """
        check_delta(delta)
        plans = list(dict.fromkeys((events, records) for _, records, events in clients))
        found = {plan: account(plan[0], delta, quick=True) for plan in plans}
        closely = sorted(plans, key=lambda plan: found[plan].epsilon, reverse=True)
        if len(closely) > MOST_TIGHT:
            del closely[1:]
        verdicts: dict[tuple[Counted, int], tuple[Verdict, ...]] = {}
        for done, plan in enumerate(closely):
            found[plan] = account(plan[0], delta)
            verdicts[plan] = by_theorems(*plan, delta)
            if progress is not None:
                progress(done + 1, len(closely))
        return tuple(
            cls(name, records, events, found[events, records], verdicts.get((events, records), ()))
            for name, records, events in clients
        )

    @property
    def rounds(self) -> int:
        return sum(count for _, count in self.events)

    def to_json(self) -> dict[str, Any]:
        spent = self.spent.to_json()
        return {
            "name": self.name,
            "records": self.records,
            "rounds": self.rounds,
            "pld_epsilon": spent["epsilon"] if self.spent.method == "pld" else None,
            **spent,
            "theorems": [{**asdict(verdict), "applies": verdict.applies} for verdict in self.theorems],
            "events": to_json(self.events),
        }


@dataclass(frozen=True)
class Statement:
    """The statement on a run file or a run. Without an epsilon, ``clients`` is empty and ``delta`` is None."""

    what: str
    mechanism: str
    says: str
    delta: float | None = None
    stated: float | None = None
    sigma: Sigmas | None = None
    clients: tuple[ClientAccount, ...] = ()
    simulated: bool | None = None  # whether the run was simulated; None for a run file, which is a plan
    failure: float = 0.0  # the chance of rare events, a part of delta
    cautions: tuple[str, ...] = ()
    withheld: bool = False  # entries were read off the records, so no epsilon is computed

    @classmethod
    def of_file(cls, config: Config, what: str, delta: float | None, progress: Progress | None = None) -> Self:
        """State the cost of running a run file. Refuse a file that `run` would refuse."""
        if config.privacy.mechanism == "none":
            return cls(what, "none", NOTHING)
        from crescendo.runs.prepare import prepare

        prepared = prepare(config, progress=progress)
        found = prepared.privacy
        assert found is not None
        made = found.certificate
        if isinstance(found, Withheld):
            return cls(what, made.mechanism, found.says, withheld=True)
        clients = [(name, made.records[c], tally(made.events(c))) for c, name in enumerate(prepared.names)]
        at = found.delta if delta is None else delta
        check_delta(at)
        accounts = ClientAccount.of_all(clients, made.usual_delta(at), progress)
        stated = found.stated if at == found.delta else None
        says, warned = f"{PLANNED}; {SPENDS}", tuple(cautions(made, at))
        return cls(what, made.mechanism, says, at, stated, made.sigma, accounts, failure=made.failure, cautions=warned)

    @classmethod
    def of_run(cls, folder: Path, delta: float | None, progress: Progress | None = None) -> Self:
        """State the cost of a run, from the events in its folder."""
        if folder.resolve().name.endswith(RUNNING):
            raise DataError(
                f"{folder} is a run that is still going or was killed; wait until it is renamed, or run it again"
            )
        check_format(folder)
        path = folder / "privacy.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise DataError(
                f"{folder} is not a run's folder: it has no privacy.json; name a run's folder or a run file"
            ) from None
        except (ValueError, RecursionError):
            raise DataError(f"{path} is not JSON that a run writes; it was changed after the run was written") from None
        if found is None:
            return cls(str(folder), "none", NOTHING)
        if isinstance(found, dict) and isinstance(found.get("withheld"), str):
            return cls(str(folder), str(found.get("mechanism")), found["withheld"], withheld=True)
        try:
            clients = [(str(c["name"]), int(c["records"]), from_json(c["events"])) for c in found["clients"]]
            mechanism, sigma, stated = str(found["mechanism"]), Sigmas.of(found["sigma"]), found["stated_epsilon"]
            rare = float(found.get("failure", 0.0))
            check_delta(found["delta"])
            if not clients or min(records for _, records, _ in clients) < 1:
                raise ValueError
        except (KeyError, TypeError, ValueError, UsageError, RecursionError):
            raise DataError(
                f"{path} does not list each client's releases; it was changed after the run was written"
            ) from None
        at = found["delta"] if delta is None else delta
        accounts = ClientAccount.of_all(clients, _usual(at, rare), progress)
        simulated = bool(found.get("simulated", True))  # a run counts as simulated unless the file states otherwise
        says = f"{REMINDER[1]}; {SPENDS}" if simulated else SPENDS
        stated = stated if at == found["delta"] else None
        warned = (*about_delta(at, min(client.records for client in accounts)), PERSONS)
        return cls(str(folder), mechanism, says, at, stated, sigma, accounts, simulated, rare, warned)

    def events_of(self, name: str | None) -> Counted:
        """Return the releases of the client ``name``; without a name, of every client, if they are all equal."""
        if self.withheld:
            raise ConfigError(f"{self.what} has no events to export: {self.says}")
        if not self.clients:
            raise ConfigError(f"{self.what} claims no privacy, so there are no events to export")
        plans = {client.name: client.events for client in self.clients}
        names = ", ".join([*list(plans)[:5], *(["..."] if len(plans) > 5 else [])])
        if name is None and len(set(plans.values())) > 1:
            raise ConfigError(f"clients have different events; choose whose to export with --client: {names}")
        if name is not None and name not in plans:
            raise ConfigError(f"there is no client {name!r}; --client is one of {names}")
        return plans[name] if name is not None else next(iter(plans.values()))

    @property
    def epsilon(self) -> float | None:
        """The epsilon of the client that spends most."""
        return max((client.spent.epsilon for client in self.clients), default=None)

    def meaning(self) -> Meaning | None:
        """Return the meaning of the epsilon of the client that spends most; None if no privacy is claimed."""
        if not self.clients or self.delta is None:
            return None
        most = max(self.clients, key=lambda client: client.spent.epsilon)
        return Meaning.of(most.events, most.spent.epsilon, self.delta, self.failure)

    def to_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "mechanism": self.mechanism,
            "says": self.says,
            "withheld": self.withheld,
            "simulated": self.simulated,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "stated_epsilon": self.stated,
            "sigma": None if self.sigma is None else self.sigma.to_json(),
            "meaning": None if (means := self.meaning()) is None else means.to_json(),
            "cautions": list(self.cautions),
            "clients": [client.to_json() for client in self.clients],
        }


def _usual(delta: float, rare: float) -> float:
    """Return delta less the chance of rare events, in which a release differs from its event."""
    left = down(delta, rare)
    if not 0 <= rare < delta or not left > 0:
        raise UsageError(
            f"delta {delta:g} leaves no room for rare events with a chance of {rare:.2g}; ask for a larger one"
        )
    return left


# -- events in a JSON file, as other libraries write them ------------------------------------------------------------------


@dataclass(frozen=True)
class EventsStatement:
    """The cost of all events of a file together."""

    what: str
    found: Foreign
    spent: Spent

    @classmethod
    def of_file(cls, path: Path, delta: float | None, progress: Progress | None = None) -> Self:
        """Account for the events of a JSON file at ``delta``."""
        if delta is None:
            raise ConfigError(f"events have no delta; give the one at which to account for {path} with --delta")
        check_delta(delta)
        found = Foreign.of_file(path)
        return cls(str(path), found, account(found.events, delta, progress=progress))

    def to_json(self) -> dict[str, Any]:
        spent = self.spent.to_json()
        return {
            "what": self.what,
            "format": self.found.format,
            "certified": False,
            "says": SAYS_OF_EVENTS,
            "releases": self.found.releases,
            **spent,
            "events": to_json(self.found.events),
        }
