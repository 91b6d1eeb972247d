"""`penstock consume --group`: reads as a member of a consumer group, and commits what it has printed.

A poll commits what earlier polls gave, which is printed by then; so a reader of the pipe that ends, a full disk or a
kill repeats some records and loses none. Not here: the group (penstock/client/consumer/groups/).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from penstock.cli.console.consume_poll import poll_once
from penstock.cli.groups.group_options import complete_group
from penstock.cli.patience.waits import ConsumeWait
from penstock.cli.patience.watch import patience
from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from penstock import Consumer
    from penstock.types import TopicPartition

Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        metavar="GROUP",
        help="Read as a member of this consumer group; what was printed is committed.",
        autocompletion=complete_group,
    ),
]
Rack = Annotated[
    str,
    typer.Option(
        "--client-rack",
        metavar="RACK",
        envvar="PENSTOCK_CLIENT_RACK",
        help="Read from replicas in this rack, where the brokers allow it (replica.selector.class).",
    ),
]
IsolationLevel = Literal["read_committed", "read_uncommitted"]
Isolation = Annotated[
    IsolationLevel | None,
    typer.Option(
        "--isolation-level",
        help="Print records of transactions when they are committed, and aborted ones never; or all. The first is the"
        " default with --group, the second without.",
    ),
]
NO_PARTITION = "the group has given this member no partition: it has just joined, or there are enough other members"


def refuse_beside_group(given: Mapping[str, object]) -> None:
    """ConfigError for an option that says where to read, which in a group its commits and its other members say."""
    for option, value in given.items():
        if value:
            raise ConfigError(
                f"{option} and --group: a group says which partitions are read, and from where; leave one out"
                " (penstock groups reset-offsets moves a group)"
            )


@contextmanager
def leaves_first() -> Iterator[None]:
    """SIGTERM, and a pipe whose reader has ended, end the process as ever, but only after the member has left: nobody
    would read its partitions for its session's time."""
    if threading.current_thread() is not threading.main_thread():  # no other one may handle signals
        yield
        return
    last: list[signal.Signals] = []

    def ends(number: int, _: object) -> None:
        last.append(signal.Signals(number))
        raise KeyboardInterrupt

    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, ends)}
    if hasattr(signal, "SIGPIPE"):  # not on every platform
        before[signal.SIGPIPE] = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        yield
    except BrokenPipeError:
        last += [number for number in before if number is not signal.SIGTERM]
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if last:
            signal.raise_signal(last[0])


class GroupEnds:
    """The ends that the partitions of a member had when it got them. A partition that is given up counts no more: its
    next member reads it."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._ends: dict[TopicPartition, int] = {}

    def are_reached(self) -> bool:
        """True once the member has partitions, and has read each up to there."""
        assigned = self._consumer.assignment()
        self._ends = {tp: end for tp, end in self._ends.items() if tp in assigned}
        new = [tp for tp in assigned if tp not in self._ends]
        if new:
            self._ends |= self._consumer.end_offsets(new)
        return bool(assigned) and all(int(self._consumer.position(tp)) >= self._ends[tp] for tp in assigned)


@dataclass(frozen=True, slots=True)
class GroupReading:
    """The topics that a member reads, and for how long."""

    group: str
    topics: tuple[str, ...]
    from_beginning: bool
    skip_undecodable: bool
    count: int
    """The number of records; 0: without end."""
    isolation_level: IsolationLevel | None = None
    exit_at_end: bool = False
    client_rack: str = ""

    def print_to(self, show: Callable[[Sequence[Any]], None], bootstrap: str) -> None:
        """Shows the records. UnknownTopicOrPartitionError for a topic that does not exist, for which a group waits."""
        from penstock import Admin, Consumer

        reset: Literal["earliest", "latest"] = "earliest" if self.from_beginning else "latest"
        member = Consumer(
            bootstrap,
            group_id=self.group,
            auto_offset_reset=reset,
            isolation_level=self.isolation_level,
            client_rack=self.client_rack,
        )
        with leaves_first(), member as consumer:
            wait = ConsumeWait(consumer, bootstrap)
            with patience(wait.progress, wait.reason):
                with Admin(bootstrap) as admin:
                    for topic in self.topics:
                        admin.describe_topic(topic)
                consumer.subscribe(self.topics)
                wait.otherwise = NO_PARTITION
                ends = GroupEnds(consumer) if self.exit_at_end else None
                while (not self.count or wait.printed < self.count) and not (ends and ends.are_reached()):
                    left = self.count - wait.printed if self.count else None
                    records = poll_once(consumer, self.skip_undecodable, left)
                    if records:
                        wait.is_printing = True
                        show(records)
                        wait.printed += len(records)
                        wait.is_printing = False
