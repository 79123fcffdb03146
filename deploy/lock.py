"""`make lock`: every package that a server or a client needs, by version and SHA-256, for the Dockerfile.

Run it from the Python and on the platform that will install: a lock has one file of each package, and pip refuses any other.
"""

import sys
import tomllib

from deploy.resolving import ROOT, resolved

HEADER = """# Made by `make lock` from pyproject.toml and constraints.txt; do not edit. For CPython {python} on Linux x86-64:
# crescendo-fl[network] without itself and crescendo-dp, and what builds it. pip install --require-hashes -r requirements.lock
"""


def locked() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = resolved(".[network]", *project["build-system"]["requires"], constraints=ROOT / "constraints.txt")
    lines = [f"{one.name}=={one.version} \\\n    --hash=sha256:{one.sha256}\n" for one in packages]
    return HEADER.format(python=f"{sys.version_info.major}.{sys.version_info.minor}") + "".join(lines)


if __name__ == "__main__":
    (ROOT / "requirements.lock").write_text(locked())
