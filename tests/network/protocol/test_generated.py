"""The code that protoc made is that of the .proto files, and runs with every protobuf that pyproject.toml allows."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
OURS = ("# ruff", "# fmt", "# mypy")  # lines that are put before what protoc made


def without_version(text: str) -> str:
    """What does not depend on the compiler's version; a newer one writes a bool without presence as optional in the .pyi."""
    text = re.sub(r"# Protobuf Python Version: .*\n", "", text)
    text = re.sub(r"(Domain\.PUBLIC,)\s+\d+,\s+\d+,\s+\d+,", r"\1", text)
    return text.replace("_Optional[bool]", "bool")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wire", "tree"])
def test_the_generated_files_are_those_of_the_proto_file(name: str, tmp_path: Path) -> None:
    outputs = [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", f"crescendo/network/protocol/{name}.proto"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", "-I", ".", *outputs], cwd=ROOT, check=True)
    for file in (f"crescendo/network/protocol/{name}_pb2.py", f"crescendo/network/protocol/{name}_pb2.pyi"):
        kept = [line for line in (ROOT / file).read_text().splitlines(keepends=True) if not line.startswith(OURS)]
        assert without_version("".join(kept)) == without_version((tmp_path / file).read_text()), file


@pytest.mark.parametrize("name", ["wire", "tree"])
def test_the_generated_code_needs_no_newer_protobuf_than_pyproject_says(name: str) -> None:
    """protobuf refuses code of a newer version than its own, so that of the oldest allowed version made it."""
    network = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["network"]
    (wanted,) = (one for one in network if one.startswith("protobuf"))
    oldest = re.match(r"protobuf>=([\d.]+),<8$", wanted)
    made = re.search(
        r"# Protobuf Python Version: (.*)\n", (ROOT / f"crescendo/network/protocol/{name}_pb2.py").read_text()
    )
    assert oldest is not None and made is not None and oldest[1] == made[1]
