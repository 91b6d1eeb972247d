"""All attacks on one secured cluster, beside an honest client, and the verdict: nothing read, nothing changed, nothing
stopped, memory within its budget."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.attack import grpc_door, guesses, kafka_door, tokens, transports
from tests.attack.honest import Honest
from tests.attack.stage import MEMORY_MIB, Stage
from tests.attack.verdict import KINDS, Table

ATTACKERS = (
    "nobody",
    "no-rights",
    "no-topics",
    "forged-token",
    "replayed-token",
    tokens.ATTACKER,
    "client-cert",
    "other-CA",
    "other-cluster",
    "expired",
    "two-names",
    "as-another",
    "plaintext",
)
"""The columns of the table; a test compares them with the ones who attack."""
ERRORS_IN_LOGS = ("Traceback", "UNKNOWN_SERVER", "InvariantViolation")


@dataclass(frozen=True)
class Size:
    """How much of it."""

    nodes: int = 3
    every_version: bool = True
    one_of: int = 1
    """Attackers that are refused unheard by gRPC's listeners ask one of so many methods."""
    timed_refusals: int = 30
    guess_s: float = 5.0
    half_handshakes: int = transports.HALF


@dataclass
class Report:
    """Lines to print, and what is not as it must be."""

    table: Table = field(default_factory=Table)
    lines: list[str] = field(default_factory=list)
    holes: list[str] = field(default_factory=list)

    def add(self, found: tuple[list[str] | str, list[str]]) -> None:
        lines, holes = found
        self.lines += [lines] if isinstance(lines, str) else lines
        self.holes += holes


def run(size: Size, tell: Callable[[str], None]) -> Report:
    """The cluster is gone afterwards, with its files."""
    report = Report()
    with tempfile.TemporaryDirectory(prefix="attack-") as directory, Stage(size.nodes, Path(directory)) as stage:
        before = stage.look()
        began = time.monotonic()
        with stage.memory_watched() as memory, Honest(stage.cluster) as honest:
            before = _with_id_of(stage, before)
            _attack(stage, size, report, tell)
        report.lines.append(f"{sum(report.table.calls.values())} calls and more in {time.monotonic() - began:.0f} s")
        report.holes += report.table.holes
        report.holes += stage.changes(before, stage.look())
        report.holes += [f"the honest client: {one}" for one in honest.verdict()[:10]]
        report.lines.append(
            f"honest client: {honest.acked} writes acked, {honest.read} read, {honest.logins} log-ins, "
            f"{len(honest.failed)} failed, slowest ack {honest.worst_ack_s * 1_000:.0f} ms"
        )
        report.lines.append("memory of nodes, MiB: " + ", ".join(f"{a} → at most {b}" for a, b in memory))
        report.holes += [f"node {n} took {b - a} MiB" for n, (a, b) in enumerate(memory) if b - a > MEMORY_MIB]
        report.holes += [
            f"the log of {name} has {word}"
            for name, _ in stage.cluster.log_tails()
            for word in ERRORS_IN_LOGS
            if word in Path(name.split(", ", 1)[1]).read_text(encoding="utf-8", errors="replace")
        ]
    return report


def _with_id_of(stage: Stage, before: dict[str, object]) -> dict[str, object]:
    """The honest producer may have taken a block of producer ids meanwhile; all else is as it was."""
    now = stage.look()
    return {**before, "metadata": now["metadata"]}


def _attack(stage: Stage, size: Size, report: Report, tell: Callable[[str], None]) -> None:
    tell("every RPC of gRPC's listeners")
    asyncio.run(grpc_door.attack(stage, report.table, size.one_of))
    tell("every API of Kafka's protocol")
    kafka_door.attack(stage, report.table, every_version=size.every_version)
    tell("tokens")
    report.add(tokens.attack(stage, report.table))
    tell("TLS")
    if not transports.old_tls_can_be_spoken_here():
        report.lines.append("TLS 1.1 is not spoken by this machine's OpenSSL: its refusal proves nothing here")
    report.add(transports.attack(stage))
    report.add(transports.false_servers(stage))
    report.add(transports.half_handshakes(stage, size.half_handshakes))
    tell("passwords")
    report.add(("a replayed proof: refused", guesses.replayed_proof(stage)))
    if size.timed_refusals:
        report.add(guesses.times(stage, size.timed_refusals))
    report.add(guesses.rate(stage, size.guess_s))


def printed(report: Report) -> list[str]:
    """The table, its words, what was found, and the verdict."""
    words = [f"  {kind:8}{text}" for kind, text in KINDS.items()]
    verdict = [f"HOLE: {hole}" for hole in report.holes]
    verdict.append("nothing read, nothing changed, nothing stopped" if not verdict else f"{len(verdict)} holes")
    return [*report.table.lines(ATTACKERS), "", *words, "", *report.lines, "", *verdict]
