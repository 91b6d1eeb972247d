"""Everything that a node needs of the machine, in one value. The caller that makes a node gives it.

In production this is `system_environment()`: the machine's clocks, randomness, disk, threads and network. A simulation
makes one with virtual time, threads that are steps, a disk that forgets, and a network that is a queue. Not here:
asyncio's loop, which is the caller's, and the node's configuration.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Protocol

from broker.authentication.tokens.ports import NO_TOKENS, Tokens
from broker.load.thread_times import ThreadTime
from broker.network.dispatcher import RequestProbe
from broker.network.listeners import NodeListeners
from broker.network.transport import MakeTransport
from broker.replication.leader.alter_partition import IsrProbe
from broker.tls.material import NO_CERTIFICATES, Certificates
from penstock.clock import Clock
from penstock.ids import Ids
from penstock.lazy_dataclass import dataclass
from penstock.threads import Threads
from raft.driver.protocols import QuorumProbe
from storage.disk.file_system import FileSystem
from storage.disk.machine import Machine
from storage.log.log_probe import LogProbe


class Probe(LogProbe, QuorumProbe, IsrProbe, RequestProbe, Protocol):
    """Hears what happens in a node, in the moment in which it happens, and must leave the node alone.

    For what the simulator's invariants compare at such a moment; what is so afterwards they read from properties and
    `statistics()`. Never called for a record.
    """


class Unheard(Probe):
    """Ignores everything, as in production."""


UNHEARD = Unheard()


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Handed to `Node`, which gives each part only what it needs of it."""

    clock: Clock
    random: random.Random
    """The source of random choices that may be guessed: election time-outs, placement of replicas."""
    ids: Ids
    file_system: FileSystem
    threads: Threads
    transport: MakeTransport
    """The way out to other nodes."""
    listeners: NodeListeners
    """The ways in."""
    descriptors_max: int
    """How many files, sockets and pipes the process may have open."""
    processors: int
    """Processors of the machine: how many threads can work at once."""
    thread_times: Callable[[], Mapping[int, ThreadTime]]
    """The processor time of each thread of the process, by the thread's number."""
    idle_processors: Callable[[], Mapping[int, int]]
    """The time (ns) for which each processor had nothing to do, by its number."""
    certificates: Certificates = NO_CERTIFICATES
    """The certificates of listeners with TLS, and of the way out."""
    tokens: Tokens = NO_TOKENS
    """The tokens by which users may log in."""
    probe: Probe = UNHEARD
    keep_objects: Callable[[], object] = lambda: None
    """Called when much was made that stays, so that the collector of the process need not walk it again and again: a
    walk over the objects of 5,000 groups stops the event loop for 100 ms."""

    def machine(self) -> Machine:
        """The part of it that storage gets."""
        return Machine(self.file_system, self.clock, self.threads, self.ids, self.descriptors_max)
