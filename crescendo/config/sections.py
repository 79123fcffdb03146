"""What every section of a run file is made of."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

COUNT = "a whole number of at least 1"
WHOLE = "a whole number of at least 0"
POSITIVE = "a number above 0"
NOT_NEGATIVE = "a number of at least 0"
FLAG = "true or false"
NUMBER = "a number"


def key(default: Any, right: str, says: str, **limits: Any) -> Any:
    """One key of the run file: ``right`` completes "must be ..", ``says`` is its line in the reference."""
    return Field(default, title=right, description=says, **limits)


def one_of(*words: str) -> str:
    """
    >>> one_of("slot", "round")
    '"slot" or "round"'
    """
    quoted = [f'"{word}"' for word in words]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]]) if len(quoted) > 1 else quoted[0]


def as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def number_as(name: str) -> BeforeValidator:
    """A bare number is short for ``{kind = "constant", <name> = number}``, a list for ``{kind = "list", ..}``."""

    def spell_out(value: object) -> object:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return {"kind": "constant", name: value}
        return {"kind": "list", "values": value} if isinstance(value, list) else value

    return BeforeValidator(spell_out)


class Section(BaseModel):
    """Strict: "3" is no number and 1 no truth value, since TOML can say what it means."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
