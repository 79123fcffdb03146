"""What the tests of journals and durable servers share."""

from __future__ import annotations

import pytest

from crescendo import system


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let syncs return at once where thousands of files are made and none has to outlive the machine."""
    monkeypatch.setattr(system, "fsync", lambda file: None)
    monkeypatch.setattr(system, "fdatasync", lambda file: None)
