"""Peer text: text from a peer, made safe for a log or a terminal."""

from typing import Any

LONGEST_TEXT_SHOWN = 1000  # characters of one text, such as a reason on the wire


def cleaned(text: str, longest: int | None = None) -> str:
    """Return the text on one line, without characters that control a terminal or reverse the reading order.

    These are the characters that Python calls not printable: control characters (C0, C1), line and paragraph separators,
    bidirectional controls, lone surrogates and characters without an agreed meaning.

    >>> print(cleaned("refused\\n\\x1b[2J\\u202eevil \\x07 caf\\u00e9"), cleaned("x" * 20, longest=5))
    refused ?[2J?evil ? café xx...
    """
    if longest is not None and len(text) > longest:
        text = text[: max(0, longest - 3)] + "..."
    return "".join(letter if letter.isprintable() else " " if letter.isspace() else "?" for letter in text)


def all_cleaned(value: Any) -> Any:
    """Clean every text in plain data, including the names of fields.

    >>> all_cleaned({"clients": [{"name": "a\\x1bb", "round": 3}]})
    {'clients': [{'name': 'a?b', 'round': 3}]}
    """
    if isinstance(value, dict):
        return {all_cleaned(name): all_cleaned(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [all_cleaned(inner) for inner in value]
    return cleaned(value, LONGEST_TEXT_SHOWN) if isinstance(value, str) else value
