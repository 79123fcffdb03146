"""No block of a page can hold the tests up: what hangs is ended, with all that it started."""

from __future__ import annotations

import signal

from tests.docs import running


def test_a_shell_that_hangs_is_ended_with_its_children() -> None:
    process = running._shell("echo begun; sleep 1000 & wait")
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    running._killed(process)  # reads both pipes to their end, which a child that lived on would hold open
    assert process.returncode == -signal.SIGKILL
