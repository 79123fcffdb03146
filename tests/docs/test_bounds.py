"""The page of bounds is true: each bound of the rooms that meet peers is on it, with its value and a test."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("core", "federation", "network", "storage")
UNITS = {
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "Ki": 2**10,
    "Mi": 2**20,
    "s": 1,
    "min": 60,
    "h": 3600,
    "days": 86_400,
}
UNITS[""] = 1

FORMAT = "a number of a stored or wire format, which versions go by"
PIECES = "the size of a piece of work or of a buffer: nothing but time and memory depends on it"
CACHE = "a cache that forgets and computes again: nothing but time depends on it"
METHOD = "a number of a computation, whose result has its own tests"
NO_BOUND = {
    "core.terms._TOGETHER": PIECES,
    "core.terms.CACHED_NUMBERS": CACHE,
    "core.terms.MOST_SUMS": CACHE,
    "core.vectors.OVERHEAD": "bytes of a message beside its vector, for forecasts of traffic",
    "core.vectors.PIECE": PIECES,
    "federation.auto_terms._MOST_ROWS": METHOD,
    "federation.auto_terms._FEWEST_ROWS": METHOD,
    "federation.auto_terms._MOST_NUMBERS": METHOD,
    "federation.auto_terms._MULTIPLICATIONS": METHOD,
    "federation.auto_terms._MORE": METHOD,
    "federation.auto_terms._GRADIENTS": METHOD,
    "federation.auto_terms._NEAR": METHOD,
    "federation.auto_terms._LEAST_SPREAD": METHOD,
    "federation.auto_terms._SAFE": METHOD,
    "federation.divergence.BEYOND": METHOD,
    "federation.divergence.LITTLE": METHOD,
    "federation.stability._NUMBERS": METHOD,
    "federation.stability._FEWEST_ROUNDS": METHOD,
    "federation.stability._HALVINGS": METHOD,
    "federation.stability._ROUNDING": METHOD,
    "network.client.participant.PIECE": PIECES,
    "network.protocol.framing.DATA": FORMAT,
    "network.protocol.framing.MESSAGE": FORMAT,
    "network.protocol.framing.SMALL": PIECES,
    "network.protocol.framing.VECTOR": FORMAT,
    "network.protocol.versions.HIGHEST": FORMAT,
    "network.protocol.versions.LOWEST": FORMAT,
    "network.server.accountant_process.POLITE": "how polite a child process is",
    "network.server.admitted_streams.DAY": "the seconds of a day",
    "network.server.spending.A_WHILE": PIECES,
    "network.server.spending.FINE": "how finely rounds are rounded up before they are accounted for",
    "network.server.spending.PATIENCE": "an answer says what is known by then, and more when it is asked again",
    "network.transport.connections.LOOK_EVERY": "how often sockets are looked at; what is closed follows from the room",
    "network.transport.connections.UNDER_FLOOD": "the same",
    "storage.journal.journal_entries._OPENED": FORMAT,
    "storage.journal.journal_entries._RECEIVED": FORMAT,
    "storage.journal.journal_entries._SUMMED": FORMAT,
    "storage.journal.segment_file.BLOCK": FORMAT,
    "storage.journal.segment_file.LARGE": PIECES,
    "storage.journal.segment_file.STAGE": PIECES,
    "storage.ledger.head_note._LENGTH": FORMAT,
    "storage.ledger.ledger_schema.APPLICATION": FORMAT,
    "storage.ledger.ledger_schema.BACKUP": FORMAT,
    "storage.ledger.offers.DAY": "the seconds of a day; `max_offers` is the operator's",
    "storage.upkeep.ledger_check.MAX_PAGES": "sentences about one damaged ledger that are shown",
}


def rows() -> list[list[str]]:
    page = (ROOT / "docs" / "bounds.md").read_text()
    return [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `")]


ROWS = {row[0].strip("`"): row for row in rows()}


def value_of(name: str) -> Any:
    """The constant of a module, or the default of a field of a class in it."""
    path = name.split(".")
    for length in range(len(path) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(["crescendo", *path[:length]]))
        except ModuleNotFoundError:
            continue
        for part in path[length:]:
            found = getattr(found, part)
        return found
    raise AssertionError(f"there is no {name}")


def number(text: str) -> float:
    """A number as the page writes it: 4,096, 64 KiB, 10 min, 2^53."""
    found = re.fullmatch(r"([\d,.]+)(?:\^(\d+))? ?([A-Za-z]*)", text)
    assert found is not None, f"{text!r} is no number"
    made = float(found[1].replace(",", "")) ** int(found[2] or 1)
    return made * UNITS[found[3]]


def constants() -> dict[str, Any]:
    """Every upper-case number, range or tuple of numbers at the top of a module of these rooms."""
    found = {}
    for room in ROOMS:
        for path in sorted((ROOT / "crescendo" / room).rglob("*.py")):
            if path.name.endswith("_pb2.py"):
                continue
            dotted = ".".join(path.relative_to(ROOT / "crescendo").with_suffix("").parts)
            for name in assigned(ast.parse(path.read_text())):
                value = value_of(f"{dotted}.{name}")
                if is_number(value):
                    found[f"{dotted}.{name}"] = value
    return found


def assigned(module: ast.Module) -> list[str]:
    targets = [target for node in module.body if isinstance(node, ast.Assign) for target in node.targets]
    targets += [node.target for node in module.body if isinstance(node, ast.AnnAssign)]
    names = [one for target in targets for one in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return [one.id for one in names if isinstance(one, ast.Name) and one.id.lstrip("_").isupper()]


def is_number(value: Any) -> bool:
    if isinstance(value, tuple):
        return bool(value) and all(map(is_number, value))
    return type(value) in (int, float, range)


@pytest.mark.parametrize("name", ROWS)
def test_the_value_on_the_page_is_that_in_the_code(name: str) -> None:
    shown, value = ROWS[name][1], value_of(name)
    if isinstance(value, range):
        assert [number(one) for one in shown.split(" to ")] == [value.start, value.stop - 1]
    elif isinstance(value, tuple):
        assert tuple(number(one) for one in shown.split(" and ")) == value
    else:
        assert number(shown) == value


@pytest.mark.parametrize("name", ROWS)
def test_each_bound_says_what_happens_who_reaches_it_and_where_it_is_tested(name: str) -> None:
    _, _, happens, who, where = ROWS[name]
    file, test = re.fullmatch(r"`(\S+)`: `(\w+)`", where).groups()  # type: ignore[union-attr]
    text = (ROOT / "tests" / file).read_text()
    assert happens and who and f"def {test}(" in text
    assert re.search(rf"\b{name.split('.')[-1]}\b", text), f"{file} does not name {name}"


def test_each_number_of_these_rooms_is_on_the_page_or_is_no_bound_for_a_reason() -> None:
    found = constants()
    assert sorted(found.keys() - ROWS.keys() - NO_BOUND.keys()) == [], "put it into docs/bounds.md, with a test"
    assert sorted(NO_BOUND.keys() - found.keys()) == [], "it is gone"
    assert sorted(NO_BOUND.keys() & ROWS.keys()) == []


BARE = {  # numbers without a name that are compared with, or waited for
    "core.vectors": "bits of a number",
    "network.protocol.framing": "bytes and bits of a number on the wire",
    "network.protocol.tree_messages": "digits of an id",
    "network.transport.security.address": "the largest port, and its digits",
}


def test_no_bound_is_a_number_without_a_name() -> None:
    found = set()
    for room in ROOMS:
        for path in sorted((ROOT / "crescendo" / room).rglob("*.py")):
            dotted = ".".join(path.relative_to(ROOT / "crescendo").with_suffix("").parts)
            for node in ast.walk(ast.parse(path.read_text())):
                if any(is_large(one) for one in looked_at(node)):
                    found.add(dotted)
    assert found == BARE.keys()


def looked_at(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.Call):
        return [one.value for one in node.keywords if one.arg in ("timeout", "maxlen", "maxsize", "limit")]
    return []


def is_large(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value >= 5
