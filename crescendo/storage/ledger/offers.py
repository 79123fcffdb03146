"""Offers: the terms that servers proposed lately, so that no server asks a ledger question after question.

Each answer tells a server whether its plan fits into what is left: plan after plan, it would learn how much that is.
"""

from crescendo.errors import Refused

DAY = 86_400.0


class Offers:
    """Terms that were held against a ledger, each with its time.

    >>> offers = Offers()
    >>> offers.add("f", "9f3c", at=0.0)
    >>> [offers.is_news("f", terms, 2, now) for terms, now in [("9f3c", 10.0), ("a1b2", 10.0), ("9f3c", DAY + 1)]]
    [False, True, True]
    """

    def __init__(self) -> None:
        self._at: dict[tuple[str, str], float] = {}  # the newest time of each

    def add(self, federation: str, terms: str, at: float) -> None:
        self._at[federation, terms] = float(at)

    def is_news(self, federation: str, terms: str, most: int, now: float) -> bool:
        """Are these terms to be counted? False if they were offered within the last day; Refused if ``most`` others were."""
        # times of a clock that was wrong do not count
        recent = [offer for offer, at in self._at.items() if abs(now - at) < DAY]
        if (federation, terms) in recent:
            return False
        if len(recent) >= most:
            raise Refused(
                f"{len(recent)} different terms were offered within 24 hours, and every answer tells a server something about "
                f"what this ledger has left; come back tomorrow, or raise max_offers in the policy"
            )
        return True
