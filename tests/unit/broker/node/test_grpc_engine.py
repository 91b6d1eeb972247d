"""Which I/O engine gRPC has in a node's process."""

from __future__ import annotations

import os
import subprocess
import sys

from broker.node.grpc_engine import EXPERIMENTS, POLL_WHERE_WAITED, choose_grpc_engine

NODE = """
import sys
from broker.node.grpc_engine import choose_grpc_engine
print(choose_grpc_engine(), "grpc" in sys.modules, flush=True)
import asyncio
import grpc.aio

async def call():
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            await channel.unary_unary("/nobody/Knows")(b"")
        except grpc.aio.AioRpcError as error:
            print(error.code().name)
    await server.stop(0)

asyncio.run(call())
"""


def test_a_measured_version_polls_where_the_event_is_waited_for() -> None:
    environment: dict[str, str] = {}
    assert choose_grpc_engine(environment, "1.85.1")
    assert environment == {EXPERIMENTS: POLL_WHERE_WAITED}


def test_a_version_that_was_not_measured_keeps_its_own_choice() -> None:
    environment: dict[str, str] = {}
    assert not choose_grpc_engine(environment, "1.90.0")
    assert not choose_grpc_engine(environment, "")
    assert environment == {}


def test_an_operator_has_the_say() -> None:
    environment = {EXPERIMENTS: ""}
    assert not choose_grpc_engine(environment, "1.85.1")
    assert environment == {EXPERIMENTS: ""}


def test_the_installed_grpc_was_measured_and_knows_the_names() -> None:
    """Fails with a gRPC that was not measured: measure it, and add it, or remove the module (ADR 0013)."""
    chosen = _run({})
    assert chosen.stdout.split() == ["True", "False", "UNIMPLEMENTED"]
    assert "Unknown experiment" not in chosen.stderr
    unknown = _run({EXPERIMENTS: "-no_such_engine"})
    assert unknown.stdout.split() == ["False", "False", "UNIMPLEMENTED"]
    assert "Unknown experiment: no_such_engine" in unknown.stderr


def _run(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != EXPERIMENTS}
    return subprocess.run(
        [sys.executable, "-c", NODE], capture_output=True, text=True, timeout=60, check=True, env=kept | environment
    )
