"""Accountant process: runs the tight accountant in a child process, so that the server's rounds go on meanwhile.

The accountant computes for seconds in compiled code. A thread would compete with the server's loop and could not be stopped. The
end of the process would interrupt it inside that code, which can abort the process (seen with a thread inside `scipy.fft`). A
child process can be killed at any time, and writes nothing to disk. Questions and answers are lines of JSON on its standard
input and output.
"""

import asyncio
import json
import os
import queue
import sys
import threading
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

from crescendo.errors import CrescendoError
from crescendo_dp.accounting.epsilon import account
from crescendo_dp.events import Counted, from_json, to_json

Accountant = Callable[[Counted, float], Awaitable[float]]
Accountants = Callable[[], AbstractAsyncContextManager[Accountant]]
"""Begin a series of questions: the accountant runs until the block ends."""

POLITE = 5  # added to the child's niceness: rounds come first
# The child imports from the same path as this process, and not from the folder that it is started in.
PROGRAM = (
    "import json, sys; sys.path = json.loads(sys.argv[1]); "
    "from crescendo.network.server.accountant_process import answer_all; answer_all()"
)


class AccountantFailed(CrescendoError):
    """The process could not be started, or ended before it answered."""


@asynccontextmanager
async def accountant_process() -> AsyncIterator[Accountant]:
    """Start a child process and yield an accountant that asks it; kill the child at the end of the block."""
    command = sys.executable, "-c", PROGRAM, json.dumps(sys.path)
    try:  # in a session of its own: Ctrl-C on a terminal is for the server
        child = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True
        )
    except OSError as error:
        raise AccountantFailed(f"no process for the accountant ({(error.strerror or str(error)).lower()})") from None
    assert child.stdin is not None and child.stdout is not None
    questions, answers = child.stdin, child.stdout

    async def epsilon(events: Counted, delta: float) -> float:
        with suppress(ConnectionError):  # the child has ended, and the read below finds that out
            questions.write(json.dumps({"events": to_json(events), "delta": delta}).encode() + b"\n")
            await questions.drain()
        answer = await answers.readline()
        if not answer:
            raise AccountantFailed("the accountant's process has ended; was it killed, or is memory short?")
        found = json.loads(answer)
        if "error" in found:
            raise AccountantFailed(f"the accountant failed: {found['error']}")
        return float(found["epsilon"])

    try:
        yield epsilon
    finally:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()


def answer_all() -> None:
    """Answer each line of standard input, in the child. The child ends with its server, even if that was killed."""
    os.nice(POLITE)
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
        os._exit(0)  # the server has ended, and the child keeps no state

    threading.Thread(target=read, daemon=True).start()
    while True:
        print(_answer(lines.get()), flush=True)


def _answer(line: str) -> str:
    """
    >>> _answer('{"events": [{"rate": 0.01, "sigma": 1.0, "count": 1000}], "delta": 1e-5}')[:16]
    '{"epsilon": 1.82'
    >>> _answer('{"events": [], "delta": 2}')
    '{"error": "delta must lie strictly between 0 and 1, got 2"}'
    """
    try:
        asked = json.loads(line)
        return json.dumps({"epsilon": account(from_json(asked["events"]), asked["delta"], state_error=False).epsilon})
    except Exception as error:  # the server logs it, and goes on without the tight number
        return json.dumps({"error": str(error) or type(error).__name__})
