"""Figures as files: by matplotlib where plotly's own way is not installed, or refused with what to do."""

from __future__ import annotations

import importlib.util
import io
import sys
from pathlib import Path

import numpy as np
import pytest

import crescendo
from crescendo.errors import ConfigError
from crescendo.views import plotted


@pytest.fixture(autouse=True)
def without_kaleido(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "kaleido" else find(name))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "starts"), [("a.pdf", b"%PDF"), ("a.svg", b"<?xml"), ("a.png", b"\x89PNG")])
def test_figures_are_written_by_matplotlib(name: str, starts: bytes, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: the plots extra")
    x = np.random.default_rng(0).normal(size=(60, 2))
    y = x[:, 0] > 0
    swept = crescendo.sweep(x, y, ["clients.count=2,3", "run.seed=0..2"], rounds=2)
    compared = crescendo.compare(x, y, ["fedavg"], seeds=2, rounds=2)
    result, certified = crescendo.simulate(x, y, rounds=2), crescendo.schedule(x, y, rounds=2)
    for figure in (swept.plot(), compared.plot(), result.plot(), certified.plot()):
        figure.write_image(tmp_path / name)
        first = (tmp_path / name).read_bytes()
        assert first.startswith(starts) and len(first) > 3000
        written = io.BytesIO()
        figure.write_image(written, format=name[2:])
        assert written.getvalue()[:4] == starts[:4]


def test_what_cannot_be_written_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    figure = plotted({"type": "scatter", "y": [1, 2]})
    with pytest.raises(ConfigError, match=r"written as pdf, svg, png, not as webp; .*write_html"):
        figure.write_image(tmp_path / "a.webp")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(ConfigError, match=r"pip install 'crescendo-fl\[plots\]'"):
        figure.write_image(tmp_path / "a.pdf")
    assert not list(tmp_path.iterdir())
