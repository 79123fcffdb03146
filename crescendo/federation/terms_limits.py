"""Limits on a peer's terms, checked before anything is computed from them.

`check_values` checks the text: printable strings, and numbers that fit a float. `check_extent` checks the size of the
run: a few characters can ask for any number of rounds, slots, and pairs of rounds and clients.
"""

from typing import Any

from crescendo.errors import Refused
from crescendo.federation.schedule_terms import RunSchedule

MOST_ROUNDS = 1_000_000
MOST_PAIRS = 100_000_000  # rounds times clients: the certificate examines each pair
MOST_COINS = 10_000_000  # the same if shares are drawn one by one
MOST_SLOTS = 1 << 27  # of a client in a round: a round is laid out slot by slot
SLOT_BY_SLOT = (
    100_000,
    1 << 22,
    1 << 26,
)  # rounds, slots in a round and in the run, if the step changes at every slot
LARGEST = 2**63  # of a whole number, so that every number fits a float
LONGEST_TEXT = 1000  # letters


def check_values(raw: Any) -> None:
    """Require printable texts, and whole numbers that fit a float."""
    waiting = [_without_options(raw)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and not (value.isprintable() and len(value) <= LONGEST_TEXT):
            raise ValueError(f"texts must be printable and have at most {LONGEST_TEXT} letters")
        elif isinstance(value, int) and abs(value) > LARGEST:
            raise ValueError("a whole number is at most 2^63")


def _without_options(raw: Any) -> Any:
    """Leave out a table of options, which only the model's own code reads."""
    goal = raw.get("objective") if isinstance(raw, dict) else None
    if not isinstance(goal, dict) or not isinstance(goal.get("options"), dict):
        return raw
    return {**raw, "objective": {name: value for name, value in goal.items() if name != "options"}}


def check_extent(schedule: RunSchedule, weights: tuple[float, ...], shares: str) -> None:
    """Refuse a run too large for this side to examine."""
    clients, most = schedule.clients, max(weights)
    _check_rounds(schedule)
    sizes = schedule.sizes
    pairs = MOST_PAIRS if shares == "expected" else MOST_COINS
    if sizes.rounds * clients > pairs:
        raise Refused(
            f"the terms have {sizes.rounds} rounds for {clients} clients, but rounds times clients may be at most {pairs}; "
            f"use at most {pairs // clients} larger rounds"
        )
    prefix = sizes.prefix(sizes.rounds)
    largest = most * int((prefix[1:] - prefix[:-1]).max())
    if not largest <= MOST_SLOTS:
        raise Refused(f"a client has about {largest:.3g} gradients in a round, but at most {MOST_SLOTS} are allowed")
    asked = (sizes.rounds, largest, most * sizes.gradients)
    by_slot = schedule.steps.per == "slot"
    if by_slot and any(many > allowed for many, allowed in zip(asked, SLOT_BY_SLOT, strict=True)):
        raise Refused(
            "the step size changes at every gradient, so a client may have {:,} rounds, {:,} gradients in one and {:,} in all; "
            'use schedule.steps.per = "round"'.format(*SLOT_BY_SLOT)
        )


def _check_rounds(schedule: RunSchedule) -> None:
    """Check the number of rounds before the sizes are cut to the run, which lists its rounds."""
    rounds, gradients = schedule.asked.rounds, schedule.gradients
    too_many = (
        rounds > MOST_ROUNDS
        if rounds is not None
        else gradients is not None and schedule.rule.before(MOST_ROUNDS) < gradients
    )
    if too_many:
        raise Refused(f"a federation has at most {MOST_ROUNDS} rounds, but this one asks for more; make rounds larger")
