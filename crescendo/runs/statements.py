"""What the clients of a run spend, by the tight accountant and by the paper's theorems.

It is said of a run file, of a run's folder, or of a file of events.
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

MOST_TIGHT = 8  # plans that all get the tight accountant and the theorems; of more, the costliest
SPENDS = "this is what one run spends; other runs on the same records add to it"
PLANNED = (
    "this is what the plan guarantees in a real federation, whose noise comes from the operating system; the noise of a "
    "simulation comes from the seed and protects nobody"
)
SAYS_OF_EVENTS = (
    "not certified by Crescendo: this is true if these events describe what was run, every record drawn independently and "
    "one record added or removed"
)
NOTHING = "no privacy is claimed: privacy.mechanism is none, so that what clients send may tell everything"


@dataclass(frozen=True)
class ClientAccount:
    """One client: all that it releases, and what that costs; the theorems are left out where there are too many plans."""

    name: str
    records: int
    events: Counted
    spent: Spent
    theorems: tuple[Verdict, ...]

    @classmethod
    def of_all(
        cls, clients: Sequence[tuple[str, int, Counted]], delta: float, progress: Progress | None = None
    ) -> tuple[Self, ...]:
        """What each client, by its name, records and events, spends at ``delta``.

        Equal plans are looked at once; of many plans, only the costliest closely.
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
    """What is said of a run file or a run. ``clients`` is empty and ``delta`` None where no epsilon is stated."""

    what: str
    mechanism: str
    says: str
    delta: float | None = None
    stated: float | None = None
    sigma: Sigmas | None = None
    clients: tuple[ClientAccount, ...] = ()
    simulated: bool | None = None  # whether the run was; None of a run file, which is a plan
    failure: float = 0.0  # the chance of rare events, which is a part of delta
    cautions: tuple[str, ...] = ()
    withheld: bool = False  # terms were looked at, so that nothing is counted

    @classmethod
    def of_file(cls, config: Config, what: str, delta: float | None, progress: Progress | None = None) -> Self:
        """What the run of a run file will spend; a file that `run` would refuse is refused."""
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
        """What a run spent, from the events that its folder holds."""
        if folder.resolve().name.endswith(RUNNING):
            raise DataError(
                f"{folder} is a run that still goes on or was killed; wait until it is renamed, or run it again"
            )
        check_format(folder)
        path = folder / "privacy.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise DataError(
                f"{folder} is not the folder of a run, as it has no privacy.json; name one, or a run file"
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
                f"{path} does not say what each client released; it was changed after the run was written"
            ) from None
        at = found["delta"] if delta is None else delta
        accounts = ClientAccount.of_all(clients, _usual(at, rare), progress)
        simulated = bool(found.get("simulated", True))  # what does not say that its noise was real is not taken for it
        says = f"{REMINDER[1]}; {SPENDS}" if simulated else SPENDS
        stated = stated if at == found["delta"] else None
        warned = (*about_delta(at, min(client.records for client in accounts)), PERSONS)
        return cls(str(folder), mechanism, says, at, stated, sigma, accounts, simulated, rare, warned)

    def events_of(self, name: str | None) -> Counted:
        """What the client ``name`` releases; without a name, what every client releases if they all do the same."""
        if self.withheld:
            raise ConfigError(f"{self.what} has no events to export: {self.says}")
        if not self.clients:
            raise ConfigError(f"{self.what} claims no privacy, so there are no events to export")
        plans = {client.name: client.events for client in self.clients}
        names = ", ".join([*list(plans)[:5], *(["..."] if len(plans) > 5 else [])])
        if name is None and len(set(plans.values())) > 1:
            raise ConfigError(f"clients release different things; say whose events to export with --client: {names}")
        if name is not None and name not in plans:
            raise ConfigError(f"there is no client {name!r}; --client is one of {names}")
        return plans[name] if name is not None else next(iter(plans.values()))

    @property
    def epsilon(self) -> float | None:
        """Of the client that spends most."""
        return max((client.spent.epsilon for client in self.clients), default=None)

    def meaning(self) -> Meaning | None:
        """What the epsilon of the client that spends most means; None where no privacy is claimed."""
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
    """What rare events, in which a release is not what its event says, leave of delta."""
    left = down(delta, rare)
    if not 0 <= rare < delta or not left > 0:
        raise UsageError(
            f"delta {delta:g} leaves no room for rare events with a chance of {rare:.2g}; ask for a larger one"
        )
    return left


# -- events in a JSON file, as other libraries write them ------------------------------------------------------------------


@dataclass(frozen=True)
class EventsStatement:
    """What the events of a file cost together."""

    what: str
    found: Foreign
    spent: Spent

    @classmethod
    def of_file(cls, path: Path, delta: float | None, progress: Progress | None = None) -> Self:
        """What the events of a JSON file cost at ``delta``."""
        if delta is None:
            raise ConfigError(
                f"events have no delta of their own; say at which one {path} is to be accounted with --delta"
            )
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
