"""The shape of a terms text: what stands where, of what kind, and no more of it than this side can bear.

Terms come from a peer, so all of this is looked at before anything is computed from them. `check_shape` is about the text:
names that can be printed, numbers that are numbers, lists as long as the list of clients. `check_extent` is about what the text
unfolds into: rounds, slots and pairs of rounds and clients, of which few letters can ask for any number.
"""

from __future__ import annotations

from typing import Any

from crescendo.errors import Refused
from crescendo.federation.objective_terms import OWN
from crescendo.federation.peer_text import cleaned
from crescendo.federation.schedule_terms import Unfolded

MOST_ROUNDS = 1_000_000
MOST_PAIRS = 100_000_000  # rounds times clients: each is looked at by the certificate
MOST_COINS = 10_000_000  # the same where shares are drawn one by one
MOST_SLOTS = 1 << 27  # of a client in a round: a round is laid out slot by slot
SLOT_BY_SLOT = (
    100_000,
    1 << 22,
    1 << 26,
)  # rounds, slots in a round and in the run, where the step changes at every slot
MOST_FEATURES = 50_000_000
MOST_NUMBERS = 1 << 30  # of a model that is only described
LARGEST = 2**63  # of a whole number, so that every number has a float
NAME, TEXT = 128, 1000  # letters of a name, and of any other text

SECTIONS = {"federation", "run", "clients", "objective", "schedule", "privacy"}
CLIENTS = {"names", "weights", "shares"}
LOGISTIC = {"kind", "features", "l2", "intercept", "dtype", "classes"}
PRIVACY = {"mechanism", "delta", "sigma", "clip", "norm_bound", "records", "epsilon"}


def check_shape(raw: Any) -> None:
    """ValueError for what is no terms, in words that hold nothing that could not be printed."""
    _table(raw, "the terms", SECTIONS)
    _check_values({**raw, "objective": _without_options(raw["objective"])})
    clients, goal, private = raw["clients"], raw["objective"], raw["privacy"]
    _table(clients, "clients", CLIENTS)
    names = _list(clients["names"], "clients.names")
    if not names or not all(map(_is_name, [raw["federation"], *names])):
        raise ValueError(f"names are texts of 1 to {NAME} letters that can be printed")
    if len(set(names)) != len(names):
        raise ValueError("two clients have one name")
    _each(clients["weights"], "clients.weights", len(names), _is_number, "numbers")
    if clients["shares"] not in ("expected", "coin"):
        raise ValueError('clients.shares is "expected" or "coin"')
    if not isinstance(goal, dict):
        raise ValueError("the objective is a table")
    _check_goal(goal)
    if not isinstance(raw["schedule"], dict) or not isinstance(raw["run"], dict):
        raise ValueError("run and schedule are tables")
    _check_sizes(raw["schedule"].get("sizes"))
    if private is not None:
        _table(private, "privacy", PRIVACY)
        _each(private["records"], "privacy.records", len(names), _is_count, "whole numbers of at least 1")
        _check_sigma(private["sigma"])


def _check_goal(goal: dict[str, Any]) -> None:
    ours = goal.get("kind") == "logistic"
    _table(goal, "the objective", LOGISTIC if ours else OWN)
    if ours and not isinstance(goal["intercept"], bool):
        raise ValueError("objective.intercept is true or false")
    if not _is_whole(goal["features"]) or not 1 <= goal["features"] <= MOST_FEATURES:
        raise ValueError(f"records have 1 to {MOST_FEATURES} features")
    if not _is_number(goal["l2"]) or not goal["l2"] >= 0 or goal["dtype"] not in ("float64", "float32"):
        raise ValueError('objective.l2 is a number of at least 0, and objective.dtype "float64" or "float32"')
    if not ours:
        if not _is_count(goal["size"]) or goal["size"] > MOST_NUMBERS or not _is_number(goal["start"]):
            raise ValueError(f"a model has 1 to {MOST_NUMBERS} numbers, and its first one a length")
        if not isinstance(goal["kind"], str) or not isinstance(goal["sha256"], str):
            raise ValueError("a model has a kind and a SHA-256")


def check_extent(schedule: Unfolded, weights: tuple[float, ...], shares: str) -> None:
    """Refused for a run that is longer than this side looks at."""
    clients, most = schedule.clients, max(weights)
    _check_rounds(schedule)
    sizes = schedule.sizes
    pairs = MOST_PAIRS if shares == "expected" else MOST_COINS
    if sizes.rounds * clients > pairs:
        raise Refused(
            f"the terms have {sizes.rounds} rounds for {clients} clients, and rounds times clients may be {pairs}; "
            f"make fewer and larger rounds"
        )
    prefix = sizes.prefix(sizes.rounds)
    largest = most * int((prefix[1:] - prefix[:-1]).max())
    if not largest <= MOST_SLOTS:
        raise Refused(f"a client has about {largest:.3g} gradients in a round, and {MOST_SLOTS} are allowed")
    asked = (sizes.rounds, largest, most * sizes.gradients)
    by_slot = schedule.steps.per == "slot"
    if by_slot and any(many > allowed for many, allowed in zip(asked, SLOT_BY_SLOT, strict=True)):
        raise Refused(
            "the step size changes at every gradient, so a client may have {:,} rounds, {:,} gradients in one and {:,} in all; "
            'schedule.steps.per = "round" would pass'.format(*SLOT_BY_SLOT)
        )


def _check_rounds(schedule: Unfolded) -> None:
    """Before the sizes are cut to the run: that lists its rounds."""
    rounds, gradients = schedule.asked.rounds, schedule.gradients
    too_many = (
        rounds > MOST_ROUNDS
        if rounds is not None
        else gradients is not None and schedule.rule.before(MOST_ROUNDS) < gradients
    )
    if too_many:
        raise Refused(f"a federation has at most {MOST_ROUNDS} rounds, and this one asks for more; make rounds larger")


# -- values ------------------------------------------------------------------------------------------------------------


def _check_values(raw: Any) -> None:
    """Every text can be printed, every whole number has a float."""
    waiting = [raw]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and not (value.isprintable() and len(value) <= TEXT):
            raise ValueError(f"texts have at most {TEXT} letters and can be printed")
        elif isinstance(value, int) and abs(value) > LARGEST:
            raise ValueError("a whole number is at most 2^63")


def _without_options(goal: Any) -> Any:
    """Options are for a model's own code, and nobody else's."""
    return {name: value for name, value in goal.items() if name != "options"} if isinstance(goal, dict) else goal


def _check_sizes(asked: Any) -> None:
    if isinstance(asked, dict) and "values" in asked:
        for value in _list(asked["values"], "schedule.sizes.values"):
            if not (_is_count(value) or (isinstance(value, list) and len(value) == 2 and all(map(_is_count, value)))):
                raise ValueError("listed sizes are whole numbers of at least 1, or pairs of them")


def _check_sigma(sigma: Any) -> None:
    pairs = sigma if isinstance(sigma, list) else [[1, sigma]]
    for pair in pairs:
        if not (isinstance(pair, list) and len(pair) == 2 and _is_count(pair[0]) and _is_number(pair[1])):
            raise ValueError("privacy.sigma is a number, or a list of pairs of rounds and sigma")


def _table(value: Any, what: str, keys: set[str]) -> None:
    if not isinstance(value, dict) or set(value) != keys:
        found = cleaned(", ".join(sorted(value)), 200) if isinstance(value, dict) else "no table"
        raise ValueError(f"{what} must have {', '.join(sorted(keys))}, and has {found or 'nothing'}")


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{what} must be a list")
    return value


def _each(value: Any, what: str, count: int, is_right: Any, right: str) -> None:
    if len(_list(value, what)) != count or not all(map(is_right, value)):
        raise ValueError(f"{what} must be {right}, one for each of {count} clients")


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= NAME and value.isprintable() and bool(value.strip())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_whole(value) and value >= 1
