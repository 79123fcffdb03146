"""requirements.lock is what constraints.txt and pyproject.toml say: each package of a deployment, by version and SHA-256."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LOCK = (ROOT / "requirements.lock").read_text()
ENTRY = re.compile(r"^([a-z0-9-]+)==(\S+) \\\n    --hash=sha256:([0-9a-f]{64})$", re.M)
LOCKED = {name: version for name, version, _ in ENTRY.findall(LOCK)}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DP = tomllib.loads((ROOT / "dp" / "pyproject.toml").read_text())


def asked() -> list[Requirement]:
    """What a deployment asks for: the requirements of both packages, the network's, and what builds them."""
    project = PROJECT["project"]
    texts = project["dependencies"] + project["optional-dependencies"]["network"] + PROJECT["build-system"]["requires"]
    found = [Requirement(text) for text in texts + DP["project"]["dependencies"]]
    return [one for one in found if one.name != "crescendo-dp"]  # built from this checkout


def applies(requirement: Requirement, extras: set[str]) -> bool:
    where = {"python_version": "3.11", "python_full_version": "3.11.0", "sys_platform": "linux"}
    where |= {"platform_system": "Linux", "platform_machine": "x86_64", "os_name": "posix"}
    marker = requirement.marker
    return marker is None or any(marker.evaluate({**where, "extra": extra}) for extra in {"", *extras})


def test_every_line_is_a_package_with_its_hash_and_names_no_host() -> None:
    entries = "".join(line for line in LOCK.splitlines(keepends=True) if not line.startswith("#"))
    assert len(ENTRY.findall(entries)) * 2 == len(entries.splitlines()) > 60
    assert "://" not in LOCK


def test_versions_are_those_of_the_constraints() -> None:
    lines = (ROOT / "constraints.txt").read_text().split()
    pinned = {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}
    assert {name: pinned.get(canonicalize_name(name)) for name in LOCKED} == LOCKED


def test_what_the_project_asks_for_is_locked_at_a_version_that_it_allows() -> None:
    for requirement in asked():
        assert LOCKED[canonicalize_name(requirement.name)] in requirement.specifier, requirement


def test_nothing_is_missing_and_nothing_is_there_that_nobody_needs() -> None:
    """By the metadata of the packages that are installed here."""
    needed, todo = set[str](), [(canonicalize_name(one.name), one.extras) for one in asked()]
    while todo:
        name, extras = todo.pop()
        if name in needed:
            continue
        needed.add(name)
        try:
            texts = requires(name) or []
        except PackageNotFoundError:  # setuptools, which only pip's own environment for a build has
            assert name == "setuptools"
            continue
        found = [Requirement(text) for text in texts]
        todo += [(canonicalize_name(one.name), one.extras) for one in found if applies(one, extras)]
    assert needed == set(LOCKED)


def test_the_dockerfile_installs_by_hash_alone_and_runs_as_nobody_in_particular() -> None:
    text = (ROOT / "Dockerfile").read_text()
    installs = [line for line in text.splitlines() if "pip install" in line and not line.startswith("#")]
    assert all("--require-hashes" in line or ("--no-deps" in line and "--no-index" in line) for line in installs)
    assert text.index("\nUSER crescendo\n") > text.rindex("\nRUN ") and "/healthz" in text
    copied = set(re.findall(r"[\w./]+", " ".join(re.findall(r"^COPY (.*) \S+$", text, re.M))))
    allowed = set(re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.M))
    assert copied == allowed  # no keys, no records, no state
