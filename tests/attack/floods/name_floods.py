"""Floods of names at KAFKA: client ids, libraries, partitions, fetch sessions.

Not here: names that a coordinator keeps (coordinator_floods.py).
"""

from __future__ import annotations

import struct
import time
from itertools import count
from typing import Any, Final

from tests.attack.floods.herd import Herd, Link, Steps, on_links
from tests.attack.floods.kafka_floods import API_VERSIONS, CREATE_TOPICS, FETCH, TENANTS_TOPIC
from tests.attack.floods.links import Target, text

PARTITIONS_EACH: Final = 100
NAMED: Final = 150
"""More clients than a party may name in the metrics, and fewer than there are places for all parties."""


def client_ids(target: Target) -> Steps:
    """Every request has another client id."""
    number = count()

    def act(link: Any) -> None:
        for _ in range(20):
            link.send(API_VERSIONS, 0, b"", client_id=f"client-{next(number):012d}".ljust(200, "x"))
        for _ in range(20):
            link.receive()

    return on_links(target, target.kafka_link, act, 4)


def names_of_clients(target: Target) -> Steps:
    """Connections that stay, each with a client id and a library of its own. The figures say how many of them have
    series in the metrics."""
    number = count()

    def make() -> Link:
        name = f"made-up-{next(number)}"
        link = target.kafka_link(client_id=name)
        body = b"".join(bytes([len(one) + 1]) + one.encode() for one in (name, "1")) + b"\0"
        link.send(API_VERSIONS, 3, body, is_flexible=True)
        return link

    for wait_s in Herd(target, NAMED, make).kept():
        if wait_s:
            page = target.page()
            target.most("client_names", page.count('penstock_client_streams{client_id="made-up-'))
            target.most("libraries", page.count('penstock_kafka_client_software{name="made-up-'))
        yield wait_s


def partitions(target: Target) -> Steps:
    """Topics of 100 partitions each, one after the other."""
    number = count()

    def act(link: Any) -> None:
        name = f"tenant-made-{time.time_ns()}-{next(number)}"
        body = struct.pack(">i", 1) + text(name) + struct.pack(">ihiii", PARTITIONS_EACH, 1, 0, 0, 10_000) + b"\0"
        (code,) = struct.unpack_from(">h", link.ask(CREATE_TOPICS, 2, body), 14 + len(name))
        target.add("partitions", 0 if code else PARTITIONS_EACH)

    return on_links(target, lambda: target.kafka_link(timeout_s=15.0), act, 2)


def fetch_sessions(target: Target) -> Steps:
    """Incremental fetch sessions (KIP-227), each of 100 partitions that may not be there, and never used again. The
    figure `taken` says how many the node has begun."""
    parts = b"".join(struct.pack(">iqqi", number, 0, -1, 1_000) for number in range(100))
    body = struct.pack(">iiiibii", -1, 0, 0, 1_000, 0, 0, 0) + struct.pack(">i", 1) + text(TENANTS_TOPIC)
    body += struct.pack(">i", 100) + parts + struct.pack(">i", 0)

    def act(link: Any) -> None:
        (session_id,) = struct.unpack_from(">i", link.ask(FETCH, 7, body), 10)
        target.add("taken", session_id > 0)

    return on_links(target, target.kafka_link, act, 10)


NAME_FLOODS: Final = {
    flood.__name__.replace("_", "-"): flood for flood in (client_ids, names_of_clients, partitions, fetch_sessions)
}
