"""What the tests of journals and durable servers share."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let syncs return at once where thousands of files are made and none has to outlive the machine."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
    monkeypatch.setattr(os, "fdatasync", lambda file: None)
