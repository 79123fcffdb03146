"""Tables keep their warnings to themselves."""

from __future__ import annotations

import subprocess
import sys

import pytest

USER = """
import warnings
warnings.simplefilter("error")
import crescendo.config.schema, crescendo.federation.terms_tables
from pydantic import BaseModel
try:
    class Mine(BaseModel):
        schema: str
except UserWarning as warning:
    assert "schema" in str(warning)
else:
    raise SystemExit("pydantic's warning was silenced")
"""


@pytest.mark.slow
def test_our_tables_may_have_a_schema_and_a_users_model_is_still_warned_of_one() -> None:
    found = subprocess.run([sys.executable, "-c", USER], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
