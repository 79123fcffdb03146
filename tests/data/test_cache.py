"""The cache gives back what was put in, and never what was damaged."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from crescendo.data import cache

ARRAYS = {"a": np.arange(50), "b": np.linspace(0, 1, 7)}


class Builder:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> cache.Arrays:
        self.calls += 1
        return dict(ARRAYS)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CRESCENDO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def same(arrays: cache.Arrays) -> bool:
    return set(arrays) == set(ARRAYS) and all(np.array_equal(arrays[name], ARRAYS[name]) for name in ARRAYS)


def test_the_second_call_does_not_build(folder: Path) -> None:
    build = Builder()
    assert same(cache.cached("kind", (1, "x"), build)) and same(cache.cached("kind", (1, "x"), build))
    assert build.calls == 1 and len(list(folder.iterdir())) == 1  # and nothing half-written stays behind


def test_anything_else_it_was_made_from_is_another_entry(folder: Path) -> None:
    build = Builder()
    for made_from in ((1, "x"), (2, "x"), (1, "y"), (1, "x", None), ("1", "x")):
        cache.cached("kind", made_from, build)
    assert build.calls == 5 and len(list(folder.iterdir())) == 5


@pytest.mark.skipif(sys.platform != "linux", reason="other systems keep caches elsewhere")
def test_the_folder_is_the_users_own_unless_one_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CRESCENDO_CACHE", str(tmp_path / "named"))
    assert cache.folder() == tmp_path / "named"
    monkeypatch.setenv("CRESCENDO_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.folder() == tmp_path / "xdg" / "crescendo"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.folder() == tmp_path / ".cache" / "crescendo"


@pytest.mark.slow
def test_a_flipped_bit_anywhere_or_a_cut_is_noticed_or_harmless(folder: Path) -> None:
    cache.cached("kind", (1,), Builder())
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    rebuilt = 0
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        build = Builder()
        assert same(cache.cached("kind", (1,), build))
        rebuilt += build.calls
        path.write_bytes(whole[:at])
        build = Builder()
        assert same(cache.cached("kind", (1,), build)) and build.calls == 1
    assert rebuilt > 0.1 * len(whole)  # the rest are time stamps and the like


def test_an_entry_that_lost_an_array_is_made_anew(folder: Path) -> None:
    cache.cached("kind", (1,), Builder())
    (path,) = folder.iterdir()
    np.savez(path, a=ARRAYS["a"], _names=np.array(["a", "b"]))
    assert same(cache.cached("kind", (1,), Builder()))


def test_a_folder_that_cannot_be_made_costs_time_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("CRESCENDO_CACHE", str(tmp_path / "file" / "cache"))
    build = Builder()
    assert same(cache.cached("kind", (1,), build)) and same(cache.cached("kind", (1,), build)) and build.calls == 2


def test_a_build_that_fails_leaves_nothing(folder: Path) -> None:
    def fail() -> cache.Arrays:
        raise ValueError("bad file")

    with pytest.raises(ValueError, match="bad file"):
        cache.cached("kind", (1,), fail)
    assert not folder.exists() or not list(folder.iterdir())


def test_without_the_variable_the_folder_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CRESCENDO_CACHE")
    assert "crescendo" in str(cache.folder())
