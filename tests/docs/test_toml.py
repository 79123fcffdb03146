"""Every TOML block of every page is a run file, a part of one, a policy or a schema: no key that the program would refuse."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from crescendo.config.loading import ELSEWHERE
from crescendo.config.schema import Config
from crescendo.data.tables.feature_schema import Schema
from crescendo.errors import ConfigError
from crescendo.federation.policy import Policy
from tests.docs.pages import PAGES, Block, blocks

BLOCKS = [block for page in PAGES for block in blocks(page) if block.language == "toml"]
REST = """
data = {source = "digits"}
clients = {count = 2}
schedule = {rounds = 10, sizes = {kind = "power", scale = 16}, steps = "auto"}
"""
NOISE = {"mechanism": "minibatch", "delta": 1e-6, "clip": 1.0}
COLUMNS = {"columns": {"age": {"low": 0.0, "high": 110.0}}}


def check(text: str) -> None:
    """ConfigError for a key or a value that no run file, policy or schema has; a part of a run file is given the rest."""
    raw = tomllib.loads(text)
    if "columns" in raw:
        Schema.of(raw)
    elif set(raw) & set(Config.model_fields):
        Config.checked(_whole(raw), "a run file has the sections")
    else:
        Policy.checked(raw, "a policy has")


def _whole(raw: dict[str, Any]) -> dict[str, Any]:
    whole = {**tomllib.loads(REST), **raw}
    if set(raw) == {"privacy"}:
        whole["privacy"] = {**NOISE, **raw["privacy"]}
    if "serve" in raw:
        whole["data"].setdefault("source", ELSEWHERE)
    if "schema" in whole["data"]:
        whole["data"]["schema"] = COLUMNS  # a block before it is the file that it names
    return whole


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_a_toml_block_has_known_keys_only(block: Block) -> None:
    try:
        check(block.text)
    except ConfigError as error:
        pytest.fail(f"{block.place}: {error}")


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_a_misspelt_key_would_be_found(block: Block) -> None:
    """Each table of each block, with a key more that nothing has."""
    raw = tomllib.loads(block.text)
    sections = [name for name, value in raw.items() if isinstance(value, dict) and name != "columns"]
    for section in sections:
        with pytest.raises(ConfigError, match="nonsense"):
            check(block.text.replace(f"[{section}]", f"[{section}]\nnonsense = 1", 1))
    with pytest.raises(ConfigError, match="nonsense"):
        check("nonsense = 1\n" + block.text)
