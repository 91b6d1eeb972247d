"""A stranger, or a user without rights, fills no disk by lines of the log, whatever it repeats under whatever names."""

from __future__ import annotations

import ast
import asyncio
import io
import logging
from pathlib import Path
from typing import Any, cast

import pytest

from broker.config.log_levels import LogLevels
from broker.connections.connection_guard import ConnectionGuard
from broker.connections.connection_watch import ConnectionWatch
from broker.node.process.log_output import REPEAT_SECONDS, TRACEBACKS_MAX, LogOutput
from penstock.clock import ManualClock
from penstock.throttled_lines import CLIENTS_SUBJECTS_MAX, SAY_INTERVAL_MS, ThrottledLines
from penstock.types import Endpoint
from tests.support.kafka_listener import ListenerBench, bench_of, run_to_the_end
from tests.unit.broker.kafka.test_bad_protocol import head, sized

ROOT = Path(__file__).resolve().parents[4]
OF_CLIENTS = (
    "apis", "audit", "authentication", "authorization", "connections", "coordination", "groups", "grpc", "kafka",
    "metrics", "network", "quotas", "transactions",
)  # fmt: skip
"""The packages that serve clients."""
NOT_BY_CLIENTS = {
    "broker/audit/audit_log.py": "bounded by its own kinds (AuditKind); acts that were done need a right",
    "broker/authentication/tokens/key_source.py": "the issuer's keys, once for each set and for each new reason",
    "broker/connections/connection_watch.py": "no descriptor to look with: the same text, at a pause",
    "broker/coordination/led_shard.py": "the loading of a partition of the node's own, and its retries",
    "broker/coordination/state_topic.py": "a topic of the node's own",
    "broker/grpc/outgoing_calls.py": "failed handshakes with this cluster's nodes, bounded by FailedHandshakes",
    "broker/metrics/page_server.py": "one line in `PageLimits.logged_every_s`, whoever fails",
    "broker/network/telemetry/subscriptions.py": "once for each change of a subscription, which needs a right",
    "broker/groups/consumer/group_epochs.py": "the same text for a group, which needs a right and a megabyte",
}
"""Files with other lines, and why no client can repeat those without bound."""


def test_each_line_that_a_client_may_cause_is_bounded() -> None:
    """It is asked of `ThrottledLines` or `RefusedHosts`, has a traceback (LogOutput bounds these), or stands above."""
    unbounded: set[str] = set()
    for package in OF_CLIENTS:
        for path in (ROOT / "broker" / package).rglob("*.py"):
            for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and _has_unbounded_line(function):
                    unbounded.add(path.relative_to(ROOT).as_posix())
    assert unbounded == set(NOT_BY_CLIENTS)


def _has_unbounded_line(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    text = ast.unparse(function)
    if any(bound in text for bound in (".due(", "_refused.note(", "_logged.note(", "TOLD_EVERY_S")):
        return False
    return any(
        ast.unparse(node.func) in ("_log.info", "_log.warning", "_log.error", "_log.critical", "_log.log")
        and not any(word.arg == "exc_info" for word in node.keywords)
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
    )


# -- what is throttled -------------------------------------------------------------------------------------------------


def test_subjects_that_clients_choose_have_so_many_lines_and_so_much_memory() -> None:
    clock = ManualClock()
    lines = ThrottledLines(clock.now_ms, 5)
    found = [lines.due(number) for number in range(1_000)]
    assert [more for more in found if more is not None] == [""] * 6, "five, and one for all others"
    assert len(lines._said) <= 6
    clock.advance(SAY_INTERVAL_MS)
    assert lines.due("new") == "" and lines.due(0) == ""
    others = [lines.due(number) for number in range(10, 1_000)]
    assert [more for more in others if more] == [] and len(lines._said) <= 6


def test_subjects_of_the_node_are_told_apart_however_many_there_are() -> None:
    lines = ThrottledLines(ManualClock().now_ms)
    assert all(lines.due(number) == "" for number in range(1_000))
    assert all(lines.due(number) is None for number in range(1_000))


def test_strangers_that_ask_for_an_api_of_their_own_each_write_a_bounded_number_of_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> ListenerBench:
        bench = await bench_of()
        for number in range(10 * CLIENTS_SUBJECTS_MAX):
            far = bench.connect(port=number)
            far.send(sized(head(key=100 + number)))
            await bench.settle()
            assert far.is_closed
        assert len(bench.lines._said) <= CLIENTS_SUBJECTS_MAX + 1
        return bench

    run_to_the_end(scenario)
    assert len(caplog.records) == CLIENTS_SUBJECTS_MAX + 1


def test_connections_that_do_not_read_their_answers_write_one_line(caplog: pytest.LogCaptureFixture) -> None:
    class Sockets:
        def peers(self) -> list[Endpoint]:
            return [Endpoint("10.0.0.1", port) for port in range(500)]

        def cut(self, peers: Any) -> int:
            return len(peers)

    class Streams:
        def peers_with_streams(self) -> tuple[Endpoint, ...]:
            return ()

        def writing_since_ms(self) -> dict[Endpoint, int]:
            return dict.fromkeys(Sockets().peers(), 0)

        def looked(self, connected: object, began_ms: int) -> None:
            """Nothing is kept."""

        def proven(self) -> dict[Endpoint, str]:
            return {}

    async def at_once(work: Any) -> Any:
        return work()

    async def scenario() -> None:
        clock = ManualClock(100_000)
        guard = ConnectionGuard(1_000, 1_000, 60_000)
        watch = ConnectionWatch("TEST", cast(Any, Sockets()), guard, Streams(), clock, cast(Any, None), lambda: 0.0)
        watch._in_thread = at_once  # type: ignore[method-assign, assignment]
        await watch.look()
        await watch.look()

    asyncio.run(scenario())
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("TEST: cut the connection of 10.0.0.1:")


# -- defects that a client can repeat ----------------------------------------------------------------------------------


def failed(number: int, at: float, line: int = 1) -> logging.LogRecord:
    error = KeyError(f"name {number}")
    made = logging.LogRecord("broker", logging.ERROR, "x.py", line, "10.0.0.1:%d failed", (number,), None)
    made.created, made.exc_info = at, (KeyError, error, None)
    return made


def test_a_defect_that_is_repeated_under_other_names_has_a_bounded_number_of_tracebacks() -> None:
    stream = io.StringIO()
    output = LogOutput(stream, 1)
    output.apply(LogLevels(logging.getLogger().level), "text")
    for number in range(1_000):
        output.handle(failed(number, number / 100))
    output.handle(failed(5_000, 10.5, line=2))
    output.handle(failed(2_000, float(REPEAT_SECONDS)))
    lines = [line for line in stream.getvalue().splitlines() if " ERROR " in line]
    assert len(lines) == TRACEBACKS_MAX + 2, "those of one place, one of another place, and the next one in time"
    assert lines[-1].endswith(f"2000 failed ({1_000 - TRACEBACKS_MAX} more times since the last such line)")
