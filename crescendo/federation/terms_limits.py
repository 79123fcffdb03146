"""Limits of a peer's terms, which are looked at before anything is computed from them.

`check_values` is about the text: letters that can be printed, numbers that have a float. `check_extent` is about what the text
unfolds into: rounds, slots and pairs of rounds and clients, of which few letters can ask for any number.
"""

from typing import Any

from crescendo.errors import Refused
from crescendo.federation.schedule_terms import RunSchedule

MOST_ROUNDS = 1_000_000
MOST_PAIRS = 100_000_000  # rounds times clients: each is looked at by the certificate
MOST_COINS = 10_000_000  # the same where shares are drawn one by one
MOST_SLOTS = 1 << 27  # of a client in a round: a round is laid out slot by slot
SLOT_BY_SLOT = (
    100_000,
    1 << 22,
    1 << 26,
)  # rounds, slots in a round and in the run, where the step changes at every slot
LARGEST = 2**63  # of a whole number, so that every number has a float
LONGEST_TEXT = 1000  # letters


def check_values(raw: Any) -> None:
    """Every text can be printed, every whole number has a float."""
    waiting = [_without_options(raw)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and not (value.isprintable() and len(value) <= LONGEST_TEXT):
            raise ValueError(f"texts have at most {LONGEST_TEXT} letters and can be printed")
        elif isinstance(value, int) and abs(value) > LARGEST:
            raise ValueError("a whole number is at most 2^63")


def _without_options(raw: Any) -> Any:
    """Options, if they are a table, are read by the model's own code only."""
    goal = raw.get("objective") if isinstance(raw, dict) else None
    if not isinstance(goal, dict) or not isinstance(goal.get("options"), dict):
        return raw
    return {**raw, "objective": {name: value for name, value in goal.items() if name != "options"}}


def check_extent(schedule: RunSchedule, weights: tuple[float, ...], shares: str) -> None:
    """Refused for a run that is longer than this side looks at."""
    clients, most = schedule.clients, max(weights)
    _check_rounds(schedule)
    sizes = schedule.sizes
    pairs = MOST_PAIRS if shares == "expected" else MOST_COINS
    if sizes.rounds * clients > pairs:
        raise Refused(
            f"the terms have {sizes.rounds} rounds for {clients} clients, and rounds times clients may be {pairs}; "
            f"at most {pairs // clients} rounds would pass, each of them larger"
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


def _check_rounds(schedule: RunSchedule) -> None:
    """Before the sizes are cut to the run: that lists its rounds."""
    rounds, gradients = schedule.asked.rounds, schedule.gradients
    too_many = (
        rounds > MOST_ROUNDS
        if rounds is not None
        else gradients is not None and schedule.rule.before(MOST_ROUNDS) < gradients
    )
    if too_many:
        raise Refused(f"a federation has at most {MOST_ROUNDS} rounds, and this one asks for more; make rounds larger")
