"""Number formats for people, in reports and on the terminal."""


def number(value: float | None, form: str = ".4f") -> str:
    """
    >>> number(None), number(0.84512)
    ('none', '0.8451')
    """
    return "none" if value is None else f"{value:{form}}"


def level(value: float | None) -> str:
    """Return a loss or an accuracy with four decimals if it is small, as a whole number if it is large.

    >>> level(0.84512), level(61.987), level(16738.35), level(2.5e30), level(None)
    ('0.8451', '61.99', '16,738', '2.5e+30', 'none')
    """
    if value is None or abs(value) < 10:
        return number(value)
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}" if abs(value) < 1e9 else f"{value:.3g}"


def digits(value: float) -> str:
    """Return an epsilon or an amount of noise with three decimals, or three digits if it is small, or none if it is large.

    >>> digits(0.3279), digits(0.00645), digits(11.93), digits(1000.4), digits(0)
    ('0.328', '0.00645', '11.930', '1,000', '0.000')
    """
    return f"{value:.3g}" if 0 < abs(value) < 0.1 else f"{value:.3f}" if abs(value) < 1000 else f"{value:,.0f}"


def short(value: float) -> str:
    """
    >>> short(0.7741), short(30.52), short(1004.2)
    ('0.774', '30.5', '1,004')
    """
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def times(more: float, less: float) -> str:
    """
    >>> times(90, 9), times(5, 5)
    ('10.0 times fewer', 'the same')
    """
    return (
        f"{more / less:.1f} times fewer"
        if more > less
        else "the same"
        if more == less
        else f"{less / more:.1f} times more"
    )


def size(count: float) -> str:
    """
    >>> size(528), size(105_600), size(5_000_000), size(999_999_999)
    ('528 B', '105.6 kB', '5.0 MB', '1.0 GB')
    """
    value, units = float(count), iter(("B", "kB", "MB", "GB", "TB", "PB"))
    unit = next(units)
    while value >= (999.5 if unit == "B" else 999.95) and unit != "PB":
        value, unit = value / 1000, next(units)
    return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"


def share(part: float) -> str:
    """
    >>> share(0.0), share(0.314), share(0.004), share(0.998), share(1.0)
    ('0%', '31%', 'under 1%', '99%', '100%')
    """
    if 0 < part < 0.01:
        return "under 1%"
    return f"{min(part, 0.99):.0%}" if part < 1 else "100%"
