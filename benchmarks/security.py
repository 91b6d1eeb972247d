"""The cost of security: the same work without it, with ACLs alone, and with TLS, log-ins and ACLs; and Kafka with TLS.

    python -m benchmarks.security [--quick] [--pairs 5] [--peers DIR]

Three clusters of three nodes run at the same time, `plain`, `acls` and `tls`, and the client of each row goes to one
after the other, in another order each turn: what drifts on the machine favours none. Rows are a JSON line each; then
come medians, ratios to `plain` of the same turn, and the goals. A client is one process: our own, or confluent-kafka at
the listeners for Kafka's clients. The clients have their rights by ACLs, of which there are 1,000 more, and none is a
super user; a turn's topics are new. With `--peers` Kafka runs in the same way afterwards, plain and with TLS at every
listener, by confluent-kafka. Latency is that of 1,000 records a second, one by one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks import broker_systems as systems
from benchmarks.broker_client_kafka import SECURITY_VARIABLE
from penstock import Admin
from penstock.certs.authority import CA_FILE, Authority
from penstock.client.admin.admin_types import (
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    UserScramCredentialUpsertion,
)
from penstock.client.options.security_options import VARIABLES
from penstock.messages.security.acls import CLUSTER_NAME
from penstock.testing import Cluster

NODES, PARTITIONS = 3, 6
OTHER_ACLS = 1_000
USER, PASSWORD = "bench", "the benchmark's own"
CLIENT_TIMEOUT_S = 180
PLAIN, ACLS, TLS = "plain", "acls", "tls"
KAFKA, KAFKA_TLS = "kafka", "kafka-tls"

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Work:
    """One row: a client's role, and how much of it. `reads` what the role of that name has written in this turn."""

    library: str
    role: str
    reads: str = ""

    @property
    def name(self) -> str:
        return f"{self.role}, {'confluent-kafka' if self.library == 'kafka' else 'own client'}"


WORKS: Final = (
    Work("penstock", "send"),
    Work("penstock", "poll", "send"),
    Work("penstock", "poll_arrow", "send"),
    Work("penstock", "latency"),
    Work("kafka", "send"),
    Work("kafka", "poll", "send"),
    Work("kafka", "latency"),
)
GOALS: Final[Mapping[str, float]] = {TLS: 0.7, ACLS: 0.98}
"""The least part of the rate of `plain`."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much one turn does."""

    records: int
    latency_records: int
    record_bytes: int = 100

    def records_of(self, role: str) -> int:
        return self.latency_records if role == "latency" else self.records


FULL, QUICK = Size(600_000, 5_000), Size(200_000, 2_000)


@dataclass(frozen=True, slots=True)
class Target:
    """One running cluster, and what its clients must know."""

    name: str
    bootstraps: Mapping[str, str]
    """By library."""
    create_topic: Callable[[str], object]
    pids: Callable[[], Sequence[int]]
    environment: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def ours(name: str) -> Iterator[Target]:
    """A cluster of this name's security, with a node's own defaults."""
    keys = {ACLS: {"authorizer.class.name": "StandardAuthorizer", "allow.everyone.if.no.acl.found": True}}.get(name, {})
    with Cluster(NODES, config=keys, defaults={}, secure=name == TLS) as cluster, ExitStack() as stack:
        admin = stack.enter_context(Admin(cluster.bootstrap, **cluster.client_options))
        principal = f"User:{USER}" if name == TLS else "User:ANONYMOUS"
        if name != PLAIN:
            for some in _rights(principal):
                for acl, error in admin.create_acls(some).items():
                    if error is not None:
                        raise RuntimeError(f"{acl}: {error}")
        environment: dict[str, str] = {}
        if name == TLS:
            admin.alter_user_scram_credentials([UserScramCredentialUpsertion(USER, PASSWORD)])
            environment = _environment(cluster)
        yield Target(
            name,
            {"penstock": cluster.bootstrap, "kafka": cluster.kafka_bootstrap},
            lambda topic: admin.create_topic(topic, PARTITIONS, NODES),
            lambda: [cluster.pid(index) for index in range(NODES)],
            environment,
        )


def _rights(principal: str) -> Iterator[list[AclBinding]]:
    """First the right to give the others, then those, among many of somebody else."""

    def acl(kind: ResourceType, name: str, who: str = principal) -> AclBinding:
        return AclBinding(kind, name, PatternType.LITERAL, who, "*", Operation.ALL, Permission.ALLOW)

    yield [acl(ResourceType.CLUSTER, CLUSTER_NAME)]
    yield [acl(ResourceType.TOPIC, "*"), acl(ResourceType.GROUP, "*"), acl(ResourceType.TRANSACTIONAL_ID, "*")]
    yield [acl(ResourceType.TOPIC, f"other-{number}", f"User:other-{number % 10}") for number in range(OTHER_ACLS)]


def _environment(cluster: Cluster) -> dict[str, str]:
    """By which both libraries' clients log in."""
    secured = cluster.secured
    assert secured is not None
    options = {"tls_ca": str(secured.ca), "username": USER, "password": PASSWORD}
    of_kafka = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(secured.ca),
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }
    return {VARIABLES[name]: value for name, value in options.items()} | {SECURITY_VARIABLE: json.dumps(of_kafka)}


@contextmanager
def kafkas(peers: Path, name: str, *, fsync: bool) -> Iterator[Target]:
    """Kafka, plain or with TLS for clients, between brokers and for controllers."""
    with ExitStack() as stack:
        config: dict[str, Any] = {}
        environment: dict[str, str] = {}
        if name == KAFKA_TLS:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-tls-")))
            keystore, ca = Authority.create(directory).node(1, ["127.0.0.1", "localhost"]), directory / CA_FILE
            config = {
                "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:SSL",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": keystore,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": ca,
            }
            environment = {SECURITY_VARIABLE: json.dumps({"security.protocol": "SSL", "ssl.ca.location": str(ca)})}
        system = stack.enter_context(systems.kafka(peers, NODES, fsync=fsync, config=config))
        more = json.loads(environment.get(SECURITY_VARIABLE, "{}"))
        yield Target(name, {"kafka": system.bootstrap}, _creates(system.bootstrap, more), system.pids, environment)


def _creates(bootstrap: str, more: Mapping[str, str]) -> Callable[[str], object]:
    from confluent_kafka.admin import AdminClient, NewTopic

    quiet = {"log_level": 0}  # it outlives Kafka, and would tell of that
    admin = AdminClient({"bootstrap.servers": bootstrap, **quiet, **more})

    def create(topic: str) -> None:
        for created in admin.create_topics([NewTopic(topic, PARTITIONS, NODES)]).values():
            created.result(60)

    return create


# -- turns -------------------------------------------------------------------------------------------------------------


def turns(targets: Sequence[Target], size: Size, pairs: int) -> Iterator[Row]:
    """All rows of clusters that run at the same time; the first turn warms them, and does not count."""
    for turn in range(pairs + 1):
        for target in targets:
            for topic in dict.fromkeys(_topic(work, turn) for work in WORKS if work.library in target.bootstraps):
                target.create_topic(topic)
        for number, work in enumerate(WORKS):
            shift = (turn + number) % len(targets)
            ordered = [*targets[shift:], *targets[:shift]]
            for target in ordered[:: 1 if turn % 2 == 0 else -1]:
                if work.library in target.bootstraps:
                    row = _run(target, work, _topic(work, turn), size)
                    if turn > 0 or "error" in row:
                        yield {"system": target.name, "turn": turn, "work": work.name, **row}


def _topic(work: Work, turn: int) -> str:
    return f"{work.reads or work.role}-{work.library}-{turn}"


def _run(target: Target, work: Work, topic: str, size: Size) -> Row:
    """One client process to its end; what it said, and the nodes' processor time."""
    records = size.records_of(work.role)
    module = f"benchmarks.broker_client_{work.library}"
    command = [sys.executable, "-m", module, work.role, target.bootstraps[work.library], topic]
    before = _cpu_s(target)
    done = subprocess.run(
        [*command, str(records), str(size.record_bytes)],
        cwd=systems.ROOT,
        env={**os.environ, **target.environment},
        capture_output=True,
        text=True,
        timeout=CLIENT_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        return {"error": done.stderr.strip()[-500:]}
    told: Row = json.loads(done.stdout)
    return told | {"nodes_cpu_us": round(1e6 * (_cpu_s(target) - before) / records, 2)}


def _cpu_s(target: Target) -> float:
    found = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in target.pids()]
    return sum(int(fields[11]) + int(fields[12]) for fields in found) / systems.TICKS_PER_SECOND


# -- the table ---------------------------------------------------------------------------------------------------------


def table(rows: Sequence[Row]) -> Iterator[str]:
    """A block for each pair of systems that were measured at the same time, and ours with TLS beside Kafka's."""
    measured = {row["system"] for row in rows}
    for one, base in ((ACLS, PLAIN), (TLS, PLAIN), (KAFKA_TLS, KAFKA), (TLS, KAFKA_TLS)):
        if not {one, base} <= measured:
            continue
        yield f"\n{f'{one} beside {base}':38} {one:>12} {base:>12} {'ratio':>22}  goal"
        for work in WORKS:
            for figure in ("p50_ms", "p99_ms") if work.role == "latency" else ("records_per_s", "nodes_cpu_us"):
                mine, theirs = (_figures(rows, system, work, figure) for system in (one, base))
                if mine and theirs:
                    yield _line(f"{work.name}, {figure}", mine, theirs, _goal(one, base, figure))


def _goal(one: str, base: str, figure: str) -> float | None:
    return GOALS.get(one) if base == PLAIN and figure == "records_per_s" else None


def _figures(rows: Sequence[Row], system: str, work: Work, figure: str) -> dict[int, float]:
    """By turn."""
    return {
        row["turn"]: row[figure]
        for row in rows
        if (row["system"], row["work"]) == (system, work.name) and figure in row
    }


def _line(title: str, mine: Mapping[int, float], theirs: Mapping[int, float], goal: float | None) -> str:
    ratios = sorted(mine[turn] / theirs[turn] for turn in mine.keys() & theirs.keys() if theirs[turn])
    middle = statistics.median(ratios) if ratios else 0.0
    spread = f"{middle:.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})" if ratios else "-"
    told = "" if goal is None else f"≥ {goal:g}× {'met' if middle >= goal else 'MISSED'}"
    one, other = (statistics.median(found.values()) for found in (mine, theirs))
    return f"{title:38} {one:12,.2f} {other:12,.2f} {spread:>22}  {told}".rstrip()


def main() -> int:
    """Exit code 1 when a row has failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.security", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two turns, shorter: under 5 minutes with Kafka")
    parser.add_argument("--pairs", type=int, help="turns that count; 5 without --quick")
    parser.add_argument("--peers", type=Path, help="the folder of a peers.py that starts Kafka; without it ours alone")
    parser.add_argument("--kafka-fsync", action="store_true", help="Kafka flushes before it acks, as Penstock does")
    arguments = parser.parse_args()
    peers: Path | None = arguments.peers.absolute() if arguments.peers is not None else None
    if missing := systems.missing_for_kafka(peers):
        peers = None
        print(f"no Kafka here; missing: {', '.join(missing)}", file=sys.stderr)
    size, pairs = (QUICK, 2) if arguments.quick else (FULL, 5)
    rows: list[Row] = []

    def measure(*made: Any) -> None:
        with ExitStack() as stack:
            targets = [stack.enter_context(each) for each in made]
            for row in turns(targets, size, arguments.pairs or pairs):
                rows.append(row)
                print(json.dumps(row), flush=True)

    measure(ours(PLAIN), ours(ACLS), ours(TLS))
    if peers is not None:
        measure(*(kafkas(peers, name, fsync=arguments.kafka_fsync) for name in (KAFKA, KAFKA_TLS)))
    for text in table(rows):
        print(text)
    return 1 if any("error" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
