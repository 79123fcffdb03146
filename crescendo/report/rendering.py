"""Rendering of HTML pages from a template and plain data. Templates, style and scripts are next to this file.

Plotly's script has several megabytes: the pages of one folder share a copy of it, and a standalone page contains it.
"""

from __future__ import annotations

import hashlib
import tempfile
from datetime import datetime
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crescendo import __version__
from crescendo.report.dates import in_words

if TYPE_CHECKING:
    from jinja2 import Environment


def rendered(template: str, behaviour: str, script: str | None, made_at: datetime | None, **told: Any) -> str:
    """Return a page that needs no network: with plotly's script inside, or at the relative path ``script``.

    ``behaviour`` is the page's own script, which follows the drawing script that all pages share.
    """
    from markupsafe import Markup

    return (
        _environment()
        .get_template(template)
        .render(
            style=Markup(_asset("page.css")),
            behaviour=Markup(_asset("drawing.js") + _asset(behaviour)),
            script=script,
            version=__version__,
            made=in_words(made_at),
            plotly=Markup(_plotly()) if script is None else None,
            **told,
        )
    )


def script_for(folder: Path, standalone: bool = False) -> str | None:
    """Return the path from a page in ``folder`` to plotly's script next to the folder; None to put it into the page."""
    name = None if standalone else _shared_script(folder.resolve().parent)
    return None if name is None else f"../{name}"


def _shared_script(folder: Path) -> str | None:
    """Write the script into ``folder``, whole or not at all since other programs may write it too, and return its name.

    Return None if a file of that name is not the script: a report would run it.
    """
    from plotly.offline import get_plotlyjs_version

    path = folder / f"plotly-{get_plotlyjs_version()}.min.js"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=folder, prefix=".plotly-") as draft:
            (Path(draft) / path.name).write_text(_plotly(), encoding="utf-8")
            (Path(draft) / path.name).replace(path)
    return path.name if _is_plotly(path) else None


def _is_plotly(path: Path) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).digest() == hashlib.sha256(_plotly().encode()).digest()
    except OSError:
        return False


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    found = Environment(
        loader=FunctionLoader(_asset), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    found.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return found


def _asset(name: str) -> str:
    return files("crescendo.report").joinpath(name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())
