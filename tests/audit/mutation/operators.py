"""Mutants: every way in which a rule of `_RULES` changes one place of a module, as a tree that can be compiled.

Text that only people read is left alone: docstrings, the words of errors, assertions, annotations.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

PACKAGE = Path(__file__).parents[3]
SOURCES = (PACKAGE / "crescendo", PACKAGE / "dp" / "crescendo_dp")

_Changed = tuple[str, ast.AST]  # the rule's name and what stands in the place of a node
_OPPOSITE: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_PAIRS = (("min", "max"), ("minimum", "maximum"), ("any", "all"), ("floor", "ceil"))
_SWAPPED = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])} | {"zeros_like": "ones_like"}
# functions of which the first argument alone is of the same kind as what they return
_DROPPED = {
    "abs",
    "sqrt",
    "ceil",
    "floor",
    "rint",
    "exp",
    "expm1",
    "log",
    "log1p",
    "min",
    "max",
    "minimum",
    "maximum",
    "clipped",
    "rounded",
    "down",
    "cost_up",
    "noise_up",
    "length_up",
    "sum_up",
    "nextafter",
    "square",
    "cumsum",
    "copysign",
}
_IN_ORDER = {
    "isinstance",
    "range",
    "zip",
    "min",
    "max",
    "minimum",
    "maximum",
    "logaddexp",
    "cast",
}  # their arguments are not swapped
_SILENT = {"__repr__", "__str__", "__format__", "to_json", "says"}  # methods that make words, and names that hold some
_WORDS = {"says", "why", "times", "__all__"}  # names of variables that hold some
_TIMING = {"progress", "done", "heard"}  # names of what hears how far a computation is


@dataclass(frozen=True)
class Mutant:
    """One change. ``key`` stays the same where lines move; ``name`` is for people."""

    module: str
    line: int
    last: int
    function: str
    operator: str
    before: str
    after: str
    nth: int  # among equal changes of the same function
    place: int  # among those of the module
    changed: ast.AST

    @property
    def key(self) -> str:
        again = f" ({self.nth + 1})" if self.nth else ""
        return f"{self.module}:{self.function} {self.operator}: {self.before} -> {self.after}{again}"

    @property
    def name(self) -> str:
        return f"{self.module}:{self.line} {self.operator}"

    @property
    def lines(self) -> range:
        """Where it stands."""
        return range(self.line, self.last + 1)

    @property
    def code(self) -> CodeType:
        """The module with the change, compiled: lines and file are those of the module itself."""
        path = path_of(self.module)
        return compile(_with(ast.parse(path.read_text()), self.place, self.changed), str(path), "exec")

    def rank(self, seed: int) -> str:
        """A random number that depends on the seed and the change alone."""
        return hashlib.sha256(f"{seed} {self.key}".encode()).hexdigest()


def path_of(module: str) -> Path:
    home = PACKAGE / "dp" if module.startswith("crescendo_dp.") else PACKAGE
    return home / (module.replace(".", "/") + ".py")


def mutants_of(module: str, left_out: frozenset[str] = frozenset()) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its lines; none in functions of ``left_out``."""
    tree = ast.parse(path_of(module).read_text())
    seen: Counter[tuple[str, ...]] = Counter()
    for number, (node, function) in enumerate(_places(tree)):
        if any(part in left_out or part in _SILENT for part in function.split(".")):
            continue
        before = _short(node)
        for operator, changed in _changes(node):
            after = "nothing" if isinstance(changed, ast.Pass) else _short(changed)
            if after == before:
                continue
            what = function, operator, before, after
            line, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
            yield Mutant(module, line, last, function, operator, before, after, seen[what], number, changed)
            seen[what] += 1


def chosen(module: str, number: int, seed: int, left_out: frozenset[str] = frozenset()) -> list[Mutant]:
    """So many mutants of a module, of every operator in turn, by rank."""
    by_operator: dict[str, list[Mutant]] = {}
    for one in sorted(mutants_of(module, left_out), key=lambda one: one.rank(seed)):
        by_operator.setdefault(one.operator, []).append(one)
    found: list[Mutant] = []
    while len(found) < number and any(by_operator.values()):
        found += [some.pop(0) for some in by_operator.values() if some]
    return found[:number]


# -- where ---------------------------------------------------------------------------------------------------------------


def _places(tree: ast.Module) -> list[tuple[ast.AST, str]]:
    """Every node that may be changed, and the function it stands in: always in the same order."""
    found: list[tuple[ast.AST, str]] = []

    def walk(node: ast.AST, function: str) -> None:
        if _for_people(node):
            return
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            function = f"{function}.{node.name}" if function else node.name
            for part in node.body:
                walk(part, function)
            return
        found.append((node, function or "<module>"))
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.AST):
                    walk(part, function)

    for part in tree.body:
        walk(part, "")
    return found


def _for_people(node: ast.AST) -> bool:
    """Words, types, and what cannot happen."""
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.alias):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # a docstring
    if isinstance(node, ast.AnnAssign) and node.value is None:
        return True
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
        return _last(node.func) in ("TypeVar", "Requirement", "cast", "wraps", *_TIMING)
    if isinstance(node, ast.Assign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return all(isinstance(one, ast.Name) and (one.id in _WORDS or _is_a_type(one.id)) for one in targets)
    test = node.test if isinstance(node, ast.If) else None
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def _is_a_type(name: str) -> bool:
    return name.lstrip("_")[0].isupper() and not name.isupper()


def _last(function: ast.Name | ast.Attribute) -> str:
    return function.id if isinstance(function, ast.Name) else function.attr


def _with(whole: ast.Module, number: int, changed: ast.AST) -> ast.Module:
    """The tree with the place of this number changed."""
    place = _places(whole)[number][0]
    for parent in ast.walk(whole):
        for name, value in ast.iter_fields(parent):
            if value is place:
                setattr(parent, name, _located(changed, place))
                return whole
            if isinstance(value, list) and any(part is place for part in value):
                setattr(parent, name, [_located(changed, place) if part is place else part for part in value])
                return whole
    raise AssertionError("the place is in the tree")


def _located(changed: ast.AST, place: ast.AST) -> ast.AST:
    return ast.fix_missing_locations(ast.copy_location(copy.deepcopy(changed), place))


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 90 else text[:60] + " ... " + text[-25:]


# -- what ----------------------------------------------------------------------------------------------------------------


def _changes(node: ast.AST) -> Iterator[_Changed]:
    for rule in _RULES:
        yield from rule(node)


def _numbers(node: ast.AST) -> Iterator[_Changed]:
    if not isinstance(node, ast.Constant):
        return
    value: Any = node.value
    if isinstance(value, bool):
        yield "flip a flag", ast.Constant(not value)
    elif isinstance(value, int):
        yield "off by one", ast.Constant(value + 1)
        if value:
            yield "off by one", ast.Constant(value - 1)
    elif isinstance(value, float):
        yield "another number", ast.Constant(value / 2 if value else 1.0)
        yield "another number", ast.Constant(value * 2 if value else -1.0)


def _conditions(node: ast.AST) -> Iterator[_Changed]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        other: Any = _OPPOSITE[type(node.ops[0])]
        yield "another comparison", ast.Compare(node.left, [other()], node.comparators)
    elif isinstance(node, ast.Compare):
        first = ast.Compare(node.left, node.ops[:1], node.comparators[:1])
        yield "widen a condition", first
        yield "widen a condition", ast.Compare(node.comparators[0], node.ops[1:], node.comparators[1:])
    elif isinstance(node, ast.BoolOp):
        for k in range(len(node.values)):
            rest = node.values[:k] + node.values[k + 1 :]
            yield "drop a condition", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
    elif isinstance(node, ast.If):
        yield "never", ast.If(ast.Constant(False), node.body, node.orelse)
        if not any(isinstance(part, ast.Raise) for part in node.body):
            yield "always", ast.If(ast.Constant(True), node.body, node.orelse)
    elif isinstance(node, ast.IfExp):
        yield "always", node.body
        yield "never", node.orelse
    elif isinstance(node, ast.comprehension) and node.ifs:
        yield "drop a condition", ast.comprehension(node.target, node.iter, [], node.is_async)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "negate", node.operand


def _arithmetic(node: ast.AST) -> Iterator[_Changed]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield "drop a sign", node.operand
    if isinstance(node, ast.AugAssign):
        yield "drop a statement", ast.Pass()
        if isinstance(node.op, ast.Add | ast.Sub):
            other = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
            yield "another sign", ast.AugAssign(node.target, other, node.value)
        return
    if not isinstance(node, ast.BinOp) or (isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)):
        return
    if isinstance(node.op, ast.Mult | ast.Div | ast.FloorDiv | ast.Mod):
        yield "drop a factor", node.left
        if isinstance(node.op, ast.Mult):
            yield "drop a factor", node.right
    elif isinstance(node.op, ast.Add | ast.Sub):
        yield "drop a term", node.left
        yield "drop a term", node.right
        yield "another sign", ast.BinOp(node.left, ast.Sub() if isinstance(node.op, ast.Add) else ast.Add(), node.right)
    elif isinstance(node.op, ast.Pow):
        yield "drop a power", node.left
    elif isinstance(node.op, ast.LShift | ast.RShift):
        yield "drop a shift", node.left
    elif isinstance(node.op, ast.BitAnd | ast.BitOr):
        yield "drop a part", node.left
        yield "drop a part", node.right


def _calls(node: ast.AST) -> Iterator[_Changed]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "drop a call", ast.Pass()
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
        return
    name, plain = _last(node.func), [arg for arg in node.args if not isinstance(arg, ast.Starred)]
    if name in _SWAPPED:
        other: Any = copy.deepcopy(node)
        setattr(other.func, "id" if isinstance(node.func, ast.Name) else "attr", _SWAPPED[name])
        yield "the opposite", other
    if len(plain) == len(node.args) and plain and not node.keywords:
        if name in _DROPPED:
            yield "drop a function", plain[0]
        if len(plain) == 2 and name not in _IN_ORDER:
            swapped = copy.copy(node)
            swapped.args = plain[::-1]
            yield "swap arguments", swapped
    for k, keyword in enumerate(node.keywords):
        if keyword.arg not in (None, "dtype", "strict", "key", "axis"):
            fewer = copy.copy(node)
            fewer.keywords = node.keywords[:k] + node.keywords[k + 1 :]
            yield "drop an argument", fewer


def _places_in_arrays(node: ast.AST) -> Iterator[_Changed]:
    if isinstance(node, ast.Slice):
        if node.lower is not None:
            yield "drop a bound", ast.Slice(None, node.upper, node.step)
        if node.upper is not None:
            yield "drop a bound", ast.Slice(node.lower, None, node.step)
    if isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load) and len(node.elts) == 2:
        first, second = node.elts
        if ast.dump(first) != ast.dump(second):
            yield "swap a pair", ast.Tuple([second, first], node.ctx)


def _statements(node: ast.AST) -> Iterator[_Changed]:
    if isinstance(node, ast.Assign) and all(isinstance(t, ast.Attribute | ast.Subscript) for t in node.targets):
        yield "drop a statement", ast.Pass()
    if isinstance(node, ast.Continue | ast.Break):
        yield "drop a statement", ast.Pass()


_RULES: tuple[Callable[[ast.AST], Iterator[_Changed]], ...] = (
    _numbers,
    _conditions,
    _arithmetic,
    _calls,
    _places_in_arrays,
    _statements,
)
