"""A test's questions to a running cluster: the leaders, and whether every replica is in sync.

Elections and catching up take their time, and a test should wait for the state and not for a time. Each question is
asked again every POLL_S until the answer is there; TimedOutError, with what was seen last, when it does not come.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from penstock.errors import ApiError, TimedOutError, UnknownTopicOrPartitionError
from penstock.ids import system_ids

POLL_S = 0.05
TOPIC_KNOWN_S = 3.0
"""The time after which every node that runs has heard of a topic: a topic that is still unknown does not exist."""
TOPIC_ID_LETTERS = 8

T = TypeVar("T")


class Reached(NamedTuple):
    """How a client reaches the cluster: its addresses, and options."""

    bootstrap: str
    options: Mapping[str, Any]


def create_topic(
    cluster: Reached, name: str | None, partitions: int, replication_factor: int, config: Mapping[str, Any] | None
) -> str:
    """Creates a topic, by default with a name that no other test has, and returns the name."""
    from penstock import Admin

    chosen = name or f"topic-{_letters(system_ids().new_id())}"
    with Admin(cluster.bootstrap, **cluster.options) as admin:
        admin.create_topic(chosen, partitions, replication_factor, config)
    return chosen


def wait_leader(
    cluster: Reached, topic: str, partition: int, is_running: Callable[[int], bool], timeout_s: float
) -> int:
    """The node that leads the partition, once that is one that runs."""
    from penstock import Admin

    with Admin(cluster.bootstrap, **cluster.options) as admin:

        def look() -> tuple[int | None, str]:
            found = admin.describe_topic(topic).partitions
            if partition >= len(found):
                raise ValueError(f"{topic} has the partitions 0 to {len(found) - 1}, not {partition}")
            leader = found[partition].leader_id
            return (leader if leader >= 0 and is_running(leader) else None), f"the leader is {leader}"

        return _wait(look, f"no running node leads {topic}-{partition}", timeout_s)


def wait_controller(cluster: Reached, is_running: Callable[[int], bool], timeout_s: float) -> int:
    """The node that is the active controller, once that is one that runs."""
    from penstock import Admin

    with Admin(cluster.bootstrap, **cluster.options) as admin:

        def look() -> tuple[int | None, str]:
            leader = admin.describe_quorum().leader_id
            return (leader if leader >= 0 and is_running(leader) else None), f"the controller is {leader}"

        return _wait(look, "no running node is the controller", timeout_s)


def wait_in_sync(cluster: Reached, topic: str | None, timeout_s: float) -> None:
    """Returns when every replica of the topic, or of all topics, is in sync.

    Every node is asked how far it has heard, and only one that has heard as much is believed: a node that stood still
    answers with what was true before, until it hears of the rest.
    """
    from penstock import Admin

    with Admin(cluster.bootstrap, **cluster.options) as admin:

        def look() -> tuple[bool | None, str]:
            admin.cluster_health()  # the client has seen the newest metadata now, and takes nothing older
            topics = admin.describe_topics() if topic is None else [admin.describe_topic(topic)]
            short = [
                f"{described.name}-{p.partition} has {list(p.isr)} of {list(p.replicas)} in sync"
                for described in topics
                for p in described.partitions
                if len(p.isr) < len(p.replicas)
            ]
            return (None if short else True), "; ".join(short[:3])

        _wait(look, "not every replica is in sync", timeout_s)


def _wait(look: Callable[[], tuple[T | None, str]], what: str, timeout_s: float) -> T:
    """The first answer that is not None; an error that may pass counts as none."""
    began = time.monotonic()
    deadline = began + timeout_s
    while True:
        try:
            found, seen = look()
        except (ApiError, TimedOutError) as error:
            if isinstance(error, ApiError) and not error.retriable:
                raise
            if isinstance(error, UnknownTopicOrPartitionError) and time.monotonic() - began > TOPIC_KNOWN_S:
                raise
            found, seen = None, str(error)
        if found is not None:
            return found
        if time.monotonic() > deadline:
            raise TimedOutError(f"{what} after {timeout_s:g} s: {seen}")
        time.sleep(POLL_S)


def _letters(text: str) -> str:
    """The first letters and digits: an id may begin with a sign."""
    return "".join(letter for letter in text if letter.isalnum())[:TOPIC_ID_LETTERS]
