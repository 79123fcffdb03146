"""A server's words reach `join` and `aggregate` by refusals, by gRPC's details and by terms; none of them steers a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from typer.testing import CliRunner

from crescendo.cli.main import app
from crescendo.network.protocol import tree_pb2, wire_pb2
from crescendo.network.protocol.tree_messages import RELAY
from crescendo.network.transport.channels import JOIN
from tests.network.live_server import run_async

EVIL = "ev\x1b]0;owned\x07il\r\nforged \x9b2J\u202ereversed\u2066 \u2028 end"
Answer = Callable[[Any, type[Any]], Awaitable[None]]


async def refuse_for_good(context: Any, down: type[Any]) -> None:
    await context.write(down(refusal=wire_pb2.Refusal(reason=EVIL, final=True)))


async def send_away(context: Any, down: type[Any]) -> None:
    await context.write(down(refusal=wire_pb2.Refusal(reason=EVIL)))


async def speak_of_a_round(context: Any, down: type[Any]) -> None:
    await context.write(down(refusal=wire_pb2.Refusal(reason=EVIL, round=3)))


async def abort(context: Any, down: type[Any]) -> None:
    await context.abort(grpc.StatusCode.UNAUTHENTICATED, EVIL)


async def break_off(context: Any, down: type[Any]) -> None:
    await context.abort(grpc.StatusCode.UNAVAILABLE, EVIL * 100)


async def other_terms(context: Any, down: type[Any]) -> None:
    await context.write(down(welcome=wire_pb2.Welcome(terms=EVIL, federation="x")))


async def odd_federation(context: Any, down: type[Any]) -> None:
    await context.write(down(welcome=wire_pb2.Welcome(terms="{}", federation=EVIL)))


ANSWERS: list[Answer] = [
    refuse_for_good,
    send_away,
    speak_of_a_round,
    abort,
    break_off,
    other_terms,
    odd_federation,
]


@asynccontextmanager
async def hostile_server(answer: Answer) -> AsyncIterator[str]:
    """A server that answers every stream of a client or an aggregator like this; its address."""

    def handler(up: type[Any], down: type[Any]) -> Any:
        async def serve(requests: Any, context: Any) -> None:
            await context.read()
            await answer(context, down)

        return grpc.stream_stream_rpc_method_handler(serve, up.FromString, down.SerializeToString)

    server = grpc.aio.server()
    for method, up, down in ((JOIN, wire_pb2.ToServer, wire_pb2.ToClient), (RELAY, tree_pb2.Up, tree_pb2.Down)):
        service, name = method.strip("/").split("/")
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {name: handler(up, down)}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


def check_harmless(result: Any) -> None:
    assert result.exit_code == 1 and result.stdout == ""
    *lines, last, end = result.stderr.split("\n")
    assert end == "" and last.startswith("crescendo: ") and len(result.stderr) < 20_000
    assert all(line.isprintable() for line in [*lines, last]) and not any(line.startswith("forged") for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("answer", ANSWERS, ids=lambda one: one.__name__)
def test_what_a_server_says_steers_no_client_s_terminal(answer: Answer, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text('mechanisms = ["none"]\n')
    (tmp_path / "mine.csv").write_text("a,b\n1,0\n2,1\n")

    async def play() -> None:
        async with hostile_server(answer) as address:
            words = [
                "join",
                address,
                "--data",
                str(tmp_path / "mine.csv"),
                "--as",
                "alice",
                "--state",
                str(tmp_path / "s"),
            ]
            words += ["--policy", str(tmp_path / "policy.toml"), "--give-up-after", "0.05", "--log", "words"]
            check_harmless(await asyncio.to_thread(CliRunner().invoke, app, words))

    run_async(play)


@pytest.mark.slow
def test_what_a_server_says_steers_no_aggregator_s_terminal() -> None:
    async def play() -> None:
        async with hostile_server(refuse_for_good) as address:
            words = ["aggregate", address, "--listen", "127.0.0.1:0", "--log", "words"]
            check_harmless(await asyncio.to_thread(CliRunner().invoke, app, words))

    run_async(play)
