"""The reference of `import crescendo`: each public name with its signature and its docstring, as a page."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import crescendo

HEAD = """# Python

Every public name of `import crescendo`, from its docstring. The same in a program: `help(crescendo.simulate)`.
"""


def reference() -> str:
    """The page. Functions come first, then classes, modules of models, and errors."""
    names = [name for name in crescendo.__all__ if not name.startswith("_")]
    parts = [_entry(f"crescendo.{name}", getattr(crescendo, name), 2) for name in sorted(names, key=_order)]
    return "\n".join([HEAD, *parts])


def _order(name: str) -> tuple[int, str]:
    found = getattr(crescendo, name)
    if inspect.isclass(found):
        return (3 if issubclass(found, Exception) else 1), name
    return (2 if inspect.ismodule(found) else 0), name


def _entry(name: str, found: Any, depth: int) -> str:
    lines = [f"{'#' * depth} {name}", ""]
    if inspect.ismodule(found):
        lines += [_prose(found), *(_entry(f"{name}.{one}", got, depth + 1) for one, got in _of_module(found))]
    elif inspect.isclass(found):
        lines += [
            _prose(found),
            *(_entry(f"{name.rpartition('.')[2]}.{one}", got, depth + 1) for one, got in _of(found)),
        ]
    elif isinstance(found, property):
        lines += [_prose(found)]
    else:
        lines += ["```python", _signature(name, found), "```", "", _prose(found)]
    return "\n".join(lines)


def _of_module(module: Any) -> Iterator[tuple[str, Any]]:
    """Functions of the module that its users call."""
    for name, found in vars(module).items():
        if inspect.isfunction(found) and found.__module__ == module.__name__ and not name.startswith("_"):
            yield name, found


def _of(cls: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties of the class's own that are documented."""
    for name, found in vars(cls).items():
        if not name.startswith("_") and (inspect.isfunction(found) or isinstance(found, property)) and found.__doc__:
            yield name, found


def _signature(name: str, found: Any) -> str:
    """As the source has it, on one line if it fits, else a line for each parameter."""
    node = ast.parse(textwrap.dedent(inspect.getsource(found))).body[0]
    assert isinstance(node, ast.FunctionDef)
    given = [one for one in _parameters(node.args) if one != "self"]
    ends = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    line = f"{name}({', '.join(given)}){ends}"
    return line if len(line) <= 100 else "\n".join([f"{name}(", *(f"    {one}," for one in given), f"){ends}"])


def _parameters(args: ast.arguments) -> Iterator[str]:
    first: list[ast.expr | None] = [None] * (len(args.args) - len(args.defaults))
    yield from map(_parameter, args.args, [*first, *args.defaults])
    if args.vararg is not None or args.kwonlyargs:
        yield "*" + (args.vararg.arg if args.vararg is not None else "")
    yield from map(_parameter, args.kwonlyargs, args.kw_defaults)
    if args.kwarg is not None:
        yield f"**{args.kwarg.arg}"


def _parameter(one: ast.arg, default: ast.expr | None) -> str:
    said = f": {ast.unparse(one.annotation)}" if one.annotation is not None else ""
    return one.arg + said + (f" = {ast.unparse(default)}" if default is not None else "")


def _prose(found: Any) -> str:
    """The docstring as Markdown: doctests become blocks, ``names`` become code."""
    text = inspect.getdoc(found) or ""
    assert text, f"{found} has no docstring"
    done = []
    for paragraph in re.split(r"\n{2,}", text):
        if paragraph.lstrip().startswith(">>>"):
            done.append(f"```pycon\n{textwrap.dedent(paragraph)}\n```")
        elif paragraph.endswith("::"):
            done.append(paragraph[:-1])
        elif paragraph.startswith("    "):
            done.append(f"```text\n{textwrap.dedent(paragraph)}\n```")
        else:
            done.append(paragraph.replace("``", "`"))
    return "\n\n".join(done) + "\n"


if __name__ == "__main__":
    print(reference(), end="")
