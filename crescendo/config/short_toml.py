"""TOML as people write it: a heading for each section, each inner table on one line."""

import json
import math
from collections.abc import Mapping
from typing import Any


def short_toml(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the text of a run file.

    >>> print(short_toml({"run": {}, "schedule": {"rounds": 3, "sizes": {"kind": "constant", "size": 10}}}), end="")
    [schedule]
    rounds = 3
    sizes = {kind = "constant", size = 10}
    """
    texts = [
        "\n".join([f"[{name}]", *(f"{_key(key)} = {toml_text(value)}" for key, value in table.items())])
        for name, table in sections.items()
        if table
    ]
    return "\n\n".join(texts) + "\n"


def toml_text(value: Any) -> str:
    """Return a value as TOML on one line.

    >>> print(toml_text({"a b": [1, 1e-7, True], "c": 'say "no"'}), toml_text(float("inf")))
    {"a b" = [1, 1e-07, true], c = "say \\"no\\""} inf
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {toml_text(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_text, value)) + "]"
    return repr(value) if not isinstance(value, float) or math.isfinite(value) else str(value)


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "a").replace("-", "a").isalnum()
    return name if bare else toml_text(name)
