"""What pip would install for some requirements: its resolver runs, and nothing is installed."""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OURS = ("crescendo-dp", "crescendo-fl")  # built from this checkout; no index has them before a release


@dataclass(frozen=True)
class Package:
    """One version of a package, and the SHA-256 of the file that this machine would install."""

    name: str
    version: str
    sha256: str


class Unresolved(Exception):
    """No versions fit together; pip's own words say why."""


def resolved(*requirements: str, constraints: Path) -> list[Package]:
    """Every package that the checkout with these requirements needs, without our own, by name."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        asked = [*requirements, "--constraint", str(constraints), "--report", str(report)]
        pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
        found = subprocess.run(
            [
                *pip,
                "--dry-run",
                "--ignore-installed",
                "--only-binary",
                ":all:",
                "--no-binary",
                ",".join(OURS),
                "./dp",
                *asked,
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        if found.returncode:
            raise Unresolved(found.stderr.strip())
        packages = [_package(one) for one in json.loads(report.read_text())["install"]]
    return sorted((one for one in packages if one.name not in OURS), key=lambda one: one.name)


def _package(found: dict[str, dict[str, object]]) -> Package:
    archive = found["download_info"].get("archive_info")
    hashes = archive["hashes"] if isinstance(archive, dict) else {}
    name = str(found["metadata"]["name"]).lower().replace("_", "-").replace(".", "-")
    return Package(name, str(found["metadata"]["version"]), hashes.get("sha256", ""))
