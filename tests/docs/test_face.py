"""What strangers see first: the order of README, the package's metadata, the citation, and the public checks."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from tests.docs.pages import REPOSITORY, ROOT, URLS

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: the docs extra")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
README = (ROOT / "README.md").read_text()
PYTHONS = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.M)
PAPER = (
    "Asynchronous Federated Learning with Reduced Number of Rounds and with Differential Privacy "
    "from Less Aggregated Gaussian Noise"
)


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def test_the_readme_says_what_it_is_for_before_how_it_is_built() -> None:
    first = ["federated learning", "differential privacy", "![", "pip install crescendo-fl", "import crescendo"]
    then = ["why not flower", "make run  ", "crescendo new study", "what it does not do"]
    places = [README.lower().index(words) for words in [*first, *then]]
    assert places == sorted(places), dict(zip([*first, *then], places, strict=True))
    assert README.partition("## ")[0].count("![") == README.count("![") == 1


def test_the_five_lines_of_the_readme_are_the_example() -> None:
    example = (ROOT / "examples" / "five_lines.py").read_text().partition("\n\n")[2]
    assert f"```python\n{example}```" in README


def test_the_figures_under_the_picture_are_the_measured_ones() -> None:
    found = re.search(r"!\[[^\]]*accuracy ([\d.]+) at epsilon ([\d.]+) in (\d+) rounds", README)
    assert found, "the picture's text names accuracy, epsilon and rounds"
    row = re.search(r"^\| `make run`[^|]*\|([^|]+)\|([^|]+)\|[^|]*\|([^|]+)\|$", measured(), re.M)
    assert row, "docs/measured.md has a row for make run"
    rounds, accuracy, epsilon = (text.split()[0] for text in row.groups())
    assert abs(float(accuracy) - float(found[1])) <= 0.0005 and (epsilon, rounds) == (found[2], found[3])


def measured() -> str:
    return (ROOT / "docs" / "measured.md").read_text()


def test_the_table_about_flower_names_what_flower_does_better() -> None:
    table = README.partition("## Why not Flower")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:4] for line in table.splitlines() if line.startswith("| ")]
    assert re.search(r"`flwr` \d+\.\d+\.\d+, read in \w+ 20\d\d", rows[0][2]), "the version that was read, and when"
    assert sum("**" in ours for _, ours, _ in rows) >= 3


def test_the_metadata_says_privacy_and_leads_to_the_project() -> None:
    assert "differential privacy" in PROJECT["description"] and len(PROJECT["description"]) <= 120
    assert PROJECT["authors"] and "differential privacy" in PROJECT["keywords"]
    assert set(URLS) == {"Repository", "Documentation", "Changelog", "Issues", "Security"}
    assert all(url.startswith(REPOSITORY) for url in URLS.values())


def test_every_python_of_the_metadata_is_tested_in_public() -> None:
    assert PYTHONS[0] == PROJECT["requires-python"].removeprefix(">=") and len(PYTHONS) >= 3
    jobs = read(".github/workflows/test.yml")["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == PYTHONS
    runs = [step["run"] for step in jobs["test"]["steps"] if "run" in step]
    assert runs[-1] == "make test", "the same as a developer runs"
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("exec make test")


def test_the_citation_has_our_title_and_the_papers() -> None:
    cite = read("CITATION.cff")
    assert cite["title"].startswith("Crescendo:") and cite["version"] == PROJECT["version"]
    assert (cite["license"], cite["repository-code"]) == (PROJECT["license"], REPOSITORY)
    paper = cite["preferred-citation"]
    assert (paper["title"], paper["year"], len(paper["authors"])) == (PAPER, 2020, 6)


@pytest.mark.parametrize(
    "form", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda form: form.stem
)
def test_an_issue_form_is_one_that_the_host_takes(form: Any) -> None:
    """Its reader takes a form with an unknown part for none at all, in silence."""
    found = yaml.safe_load(form.read_text())
    if form.stem == "config":
        assert all(link["url"].startswith(REPOSITORY) for link in found["contact_links"])
        return
    assert set(found) == {"name", "description", "labels", "body"}
    fields = [part for part in found["body"] if part["type"] != "markdown"]
    assert fields and all(part["type"] in {"input", "textarea"} and part["attributes"]["label"] for part in fields)
    assert len({part["id"] for part in fields}) == len(fields)
