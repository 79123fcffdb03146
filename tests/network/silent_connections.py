"""Many TCP connections that say nothing, held by a process of their own, so that they cost this one no descriptors."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

FROM = "127.0.0.2"  # another address of this machine

HOLD = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
held = []
for _ in range(int(sys.argv[2])):
    one = socket.socket()
    one.bind((sys.argv[3], 0))
    one.settimeout(60)
    one.connect(("127.0.0.1", int(sys.argv[1])))
    try:
        one.send(sys.argv[4].encode())
    except ConnectionError:
        pass
    held.append(one)
print("all", flush=True)
sys.stdin.read()
"""


@asynccontextmanager
async def silent_connections(port: int, count: int, first: str = "") -> AsyncIterator[None]:
    """With so many connections, that have sent ``first`` and nothing else."""
    arguments = ["-S", "-c", HOLD, str(port), str(count), FROM, first]
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdin=pipe, stdout=pipe)
    assert child.stdout is not None and child.stdin is not None
    try:
        assert await child.stdout.readline() == b"all\n"
        yield
    finally:
        child.stdin.close()
        await child.wait()
