"""A server as whoever runs it meets it: its log, its signals, and a reader of its log that has gone to sleep."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from crescendo.config.loading import read
from crescendo.network.authority.certificates import make_certificates
from tests.cli.joining_clients import ONE, records
from tests.network.processes import free_port

pytestmark = pytest.mark.slow


@contextmanager
def crescendo(*words: object, **how: Any) -> Iterator[subprocess.Popen[str]]:
    """A process of its own, which does not outlive the test."""
    command = [sys.executable, "-m", "crescendo", *map(str, words)]
    with subprocess.Popen(command, text=True, **how) as process:
        try:
            yield process
        finally:
            process.kill()


def full_pipe() -> tuple[int, int]:
    """The ends of a pipe that takes nothing more."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 4096)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b"x")
    os.set_blocking(writing, True)
    return reading, writing


def test_a_stderr_that_nobody_reads_does_not_stop_the_training(tmp_path: Path) -> None:
    (tmp_path / "federation.toml").write_text(read(ONE).to_toml())
    (tmp_path / "policy.toml").write_text('mechanisms = ["none"]')
    records(tmp_path)
    where, (reading, writing) = f"127.0.0.1:{free_port()}", full_pipe()
    how: dict[str, Any] = {"cwd": tmp_path, "stdout": subprocess.PIPE, "stderr": writing}
    serve = ("serve", "federation.toml", "--listen", where, "--state", "served", "--json")
    member = ("--data", "mine.npz", "--as", "client 0", "--state", "mine", "--policy", "policy.toml", "--json")
    try:
        with crescendo(*serve, **how) as server, crescendo("join", where, *member, **how) as client:
            ended = [json.loads(process.communicate(timeout=300)[0]) for process in (client, server)]
            assert [facts["finished"] for facts in ended] == [True, True]
            assert (client.returncode, server.returncode) == (0, 0)
    finally:
        os.close(reading)
        os.close(writing)


def test_a_mistake_ends_the_command_even_if_nobody_reads_the_sentence(tmp_path: Path) -> None:
    reading, writing = full_pipe()
    try:
        with crescendo("status", "nowhere", cwd=tmp_path, stderr=writing) as process:
            assert process.wait(300) == 1
    finally:
        os.close(reading)
        os.close(writing)


def test_every_line_on_stderr_is_json_whatever_knocks_at_the_door(tmp_path: Path) -> None:
    """gRPC itself would print a line of its own for a handshake that fails."""
    (tmp_path / "federation.toml").write_text(read(ONE).to_toml())
    make_certificates(tmp_path / "keys", clients=["client 0"])
    port = free_port()
    words = ("federation.toml", "--listen", f"127.0.0.1:{port}", "--state", "served", "--certs", "keys/server")
    clean = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
    with crescendo("serve", *words, cwd=tmp_path, env=clean, stderr=subprocess.PIPE) as server:
        assert server.stderr is not None
        lines = [server.stderr.readline()]
        assert json.loads(lines[0])["event"] == "serving", lines
        knock(port)
        server.send_signal(signal.SIGTERM)
        lines += server.communicate(timeout=300)[1].splitlines()
        assert server.returncode == 0
    assert [json.loads(line)["event"] for line in lines] == ["serving", "stopped"]


def knock(port: int) -> None:
    """As a scanner does: TLS without a certificate, then no TLS at all; each time until the server hangs up."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("127.0.0.1", port), 60) as raw,
        suppress(OSError),
        context.wrap_socket(raw) as secured,
    ):
        secured.recv(100)
    with socket.create_connection(("127.0.0.1", port), 60) as raw, suppress(OSError):
        raw.sendall(b"GET / HTTP/1.0\r\n\r\n")
        raw.recv(100)
