"""Decides the ports of `penstock dev`: asked for, as the data was started with, or the usual ones.

Kafka's clients have Kafka's own port, 9092, so that examples for Kafka work as they are. A machine of a developer often
has a Kafka there already: a port that nobody asked for by name is passed over where it is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

DEFAULT_PORT = 9192
DEFAULT_KAFKA_PORT = 9092
"""Kafka's own, so that its clients' examples work as they are."""
PORT_MAX = 65_535
KafkaPort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=PORT_MAX,
        help="The first broker's port for Kafka's clients, the next brokers' are the next ones; 0: none. Without"
        " the option a port that is taken is passed over.",
        show_default=str(DEFAULT_KAFKA_PORT),
    ),
]


class KafkaPorts(NamedTuple):
    """The port of each node for Kafka's clients; 0: that node has none."""

    wanted: tuple[int, ...]
    chosen: tuple[int, ...]

    def lines(self, bootstrap: str) -> Iterator[str]:
        """The lines that tell the user how Kafka's clients reach a ready cluster."""
        if not bootstrap:
            return
        yield f"for Kafka's clients: {bootstrap}"
        passed = [str(port) for port in self.wanted if port not in self.chosen]
        if passed:
            are = "is" if len(passed) == 1 else "are"
            yield f"{', '.join(passed)} {are} taken, so Kafka's clients have others; --kafka-port PORT chooses them"


def as_before(data: Path, nodes: int | None, port: int | None, usual_nodes: int = 1) -> tuple[int, int | None]:
    """Nodes and first port of this start: what was asked for, otherwise what the data was started with (None: its
    ports), otherwise the usual nodes from DEFAULT_PORT on. With more nodes than before the cluster grows; ConfigError
    for fewer."""
    from penstock.errors import ConfigError
    from penstock.testing.layout import stored_nodes

    stored = stored_nodes(data)
    if stored is None:
        return nodes or usual_nodes, DEFAULT_PORT if port is None else port
    if nodes is not None and nodes < stored:
        raise ConfigError(
            f"--nodes {nodes}: {data} holds a cluster of {stored}; leave --nodes out to go on with it, or start another"
            " with --data DIR"
        )
    return nodes or stored, port


def wanted_kafka_ports(data: Path, nodes: int, kafka_port: int | None) -> tuple[int, ...]:
    """The ports for Kafka's clients that this start should have, 0 for none: what was asked for, otherwise what the
    data was started with, otherwise from DEFAULT_KAFKA_PORT on. Nodes that are new follow the last one."""
    from penstock.errors import ConfigError
    from penstock.testing.layout import stored_kafka_ports

    if kafka_port is not None:
        if kafka_port + nodes - 1 > PORT_MAX:
            raise ConfigError(
                f"--kafka-port {kafka_port}: no room for {nodes} ports up to {PORT_MAX}; give a lower one"
            )
        return tuple(kafka_port and kafka_port + index for index in range(nodes))
    ports = list((stored_kafka_ports(data) or ())[:nodes])
    while len(ports) < nodes:
        ports.append((ports[-1] and ports[-1] + 1) if ports else DEFAULT_KAFKA_PORT)
    return tuple(ports)


def choose_kafka_ports(
    data: Path, nodes: int, port: int | None, host: str | None, kafka_port: int | None
) -> KafkaPorts:
    """The wanted ports, or instead of one that is taken the next free one, because nobody asked for it by name."""
    from penstock.testing.layout import new_layout, stored_layout
    from penstock.testing.ports import free_kafka_ports

    wanted = wanted_kafka_ports(data, nodes, kafka_port)
    if kafka_port is not None:
        return KafkaPorts(wanted, wanted)
    layout = stored_layout(data, nodes, port, host) or new_layout(data, nodes, port, host)
    return KafkaPorts(wanted, free_kafka_ports(wanted, layout.ports, layout.listening_address))
