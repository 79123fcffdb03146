from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crescendo.config.loading import read
from crescendo.config.schema import Config
from crescendo.errors import ConfigError
from tests.config.small import TOML, small

FORMS = [
    "timing.speed=2",
    "timing.speed=[1, 2.5]",
    "timing.latency={kind = 'lognormal', median = 1, sigma = 0.5}",
    "timing.crash={every = 100, down = 5}",
    "schedule.wait={tau = 400}",
    "schedule.wait={tau = {kind = 'power', scale = 3, power = 0.5, offset = 100}, d = 1}",
    "schedule.sizes={kind = 'recipe', gamma = 'log', m = 40}",
    "schedule.sizes={kind = 'list', values = [1, [2, 5], 3], per_client = true}",
    "clients.weights=[0.3, 0.7]",
    "objective.l2=1/N",
    "data.classes=[0, 1]",
]


@pytest.mark.parametrize("form", FORMS)
def test_a_config_that_was_written_down_reads_as_the_same_config(form: str, tmp_path: Path) -> None:
    config = small(form)
    (tmp_path / "config.toml").write_text(config.to_toml())
    assert read(tmp_path / "config.toml") == config


def test_a_file_a_dict_and_a_config_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(TOML)
    assert read(tmp_path / "run.toml") == small() == read(small())


def test_a_byte_order_mark_is_no_part_of_a_run_file(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_bytes(b"\xef\xbb\xbf" + TOML.encode())
    assert read(file) == small()


def test_a_bare_number_is_short_for_a_constant_table() -> None:
    assert small("timing.latency=3") == small("timing.latency={kind = 'constant', value = 3}")


def test_the_last_override_wins_and_an_empty_one_takes_the_key_out() -> None:
    assert small("clients.count=3", "clients.count=4").clients.count == 4
    assert small("schedule.rounds=", "schedule.gradients=70").schedule.gradients == 70


@pytest.mark.parametrize(
    ("text", "value"), [("3", 3), ("3.5", 3.5), ("true", True), ("[1, 2]", [1, 2]), ("1/N", "1/N"), ("'3'", "3")]
)
def test_an_override_is_toml_or_a_bare_word(text: str, value: object) -> None:
    own = ("objective.l2=", "objective.kind=model.py:Mine")
    assert small(*own, f"objective.options.a.b={text}").objective.options == {"a": {"b": value}}


def test_an_override_does_not_change_the_dict_it_was_put_over() -> None:
    given_dict = small().plain()
    read(given_dict, ["clients.count=9"])
    assert given_dict == small().plain()


def test_paths_are_seen_from_the_run_file(tmp_path: Path) -> None:
    (tmp_path / "model.py").touch()
    (tmp_path / "mine.csv").touch()
    text = TOML.replace("synthetic:rows=200,features=3", "mine.csv").replace("l2 = 0.01", 'kind = "model.py:Mine"')
    (tmp_path / "run.toml").write_text(text)
    config = read(tmp_path / "run.toml")
    assert config.data.source == str(tmp_path / "mine.csv")
    assert config.objective.kind == f"{tmp_path / 'model.py'}:Mine"


words = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["power", "list"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["kind", "tau", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(
    st.sampled_from(["schedule", "timing", "clients"]), st.sampled_from(["sizes", "wait", "speed", "weights"]), words
)
def test_whatever_stands_in_a_key_there_is_a_config_or_a_sentence(section: str, name: str, value: object) -> None:
    raw = small().plain()
    raw[section][name] = value
    try:
        assert isinstance(read(raw), Config)
    except ConfigError as error:
        assert "\n" not in str(error) or isinstance(value, str)


@pytest.mark.parametrize(
    ("key", "due"),
    [
        ("clip", "a number above 0, or a list of [numbers, clip]"),
        ("sigma", "a number above 0, or a list of [rounds, sigma]"),
    ],
)
def test_a_table_in_place_of_a_number_is_told_by_its_key(key: str, due: str) -> None:
    with pytest.raises(ConfigError) as raised:
        small("privacy.mechanism=minibatch", f"privacy.{key}={{ first = 1.0 }}")
    assert str(raised.value) == f"privacy.{key} must be {due}, not a table"
