"""Offers: rate limit on the terms that servers propose, so that no server can probe a ledger.

Each answer reveals if a plan fits the remaining budget; with many plans, a server could learn the remainder.
"""

from crescendo.errors import Refused

DAY = 86_400.0


class Offers:
    """Terms priced against a ledger, each with its time.

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
        """Return True if these terms count as new, False if repeated within a day; refuse after ``most`` others in a day."""
        # times from a wrong clock do not count
        recent = [offer for offer, at in self._at.items() if abs(now - at) < DAY]
        if (federation, terms) in recent:
            return False
        if len(recent) >= most:
            raise Refused(
                f"{len(recent)} different terms were offered within 24 hours, and every answer reveals something about this "
                f"ledger's remaining budget; come back tomorrow, or raise max_offers in the policy"
            )
        return True
