"""What `make docs` adds to the pages of this folder: the reference of the Python names, and the files that pages link to."""

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS))

from python_names import reference  # noqa: E402  beside this file, which is no package

ABOVE = {"README.md": "overview.md", "CHANGELOG.md": "CHANGELOG.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}
"""Pages of the repository's own folder that are pages of the site as well, and their names there; README would be its index."""
LINK = re.compile(r"\]\((?:\.\./)+([\w./-]+)(#[\w-]+)?\)")
"""A link out of this folder, to a file of the repository."""


def on_files(files: Files, config: Any) -> Files:
    files.append(File.generated(config, "api.md", content=reference()))
    above = {there: _from_here((ROOT / name).read_text()) for name, there in ABOVE.items()}
    for there, text in above.items():
        files.append(File.generated(config, there, content=text))
    texts = [*above.values(), *(page.read_text() for page in DOCS.rglob("*.md"))]
    linked = {path for text in texts for path, _ in LINK.findall(text)}
    for path in sorted(linked - set(ABOVE)):
        if (ROOT / path).is_file() and not path.startswith("docs/"):
            files.append(File.generated(config, _place(path), content=(ROOT / path).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    up = "../" * page.file.src_uri.count("/")
    return LINK.sub(lambda found: _rewritten(found, up, files), markdown)


def _from_here(text: str) -> str:
    """Links as seen from the repository's folder, as this folder sees them."""
    text = re.sub(r"\]\(docs/", "](", text)
    return re.sub(r"\]\((?=(?:examples|tests|benchmarks|crescendo|experiments|deploy)/|LICENSE|README)", "](../", text)


def _rewritten(found: re.Match[str], up: str, files: Files) -> str:
    path, anchor = found[1], found[2] or ""
    for place in (ABOVE.get(path, path), _place(path)):
        if files.get_file_from_path(place) is not None:
            return f"]({up}{place}{anchor})"
    return found[0]


def _place(path: str) -> str:
    """Where the site keeps a file of the repository: as text, which a browser shows."""
    return f"repository/{path}" + ("" if path.endswith((".png", ".svg", ".txt")) else ".txt")
