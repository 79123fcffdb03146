"""Sampling rates that a computer realises exactly: multiples of 2^-53, as its uniform numbers are."""


def rate_of(slots: int, records: int) -> float:
    """Return slots / records as a multiple of 2^-53, rounded up.

    >>> rate_of(1, 3) * 2**53 == 3002399751580331, rate_of(1, 10**30) == 2.0**-53
    (True, True)
    """
    return -(-(slots << 53) // records) * 2.0**-53
