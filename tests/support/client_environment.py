"""An environment of clients for tests: virtual time, a network in memory, one thread, and a seed for the rest."""

from __future__ import annotations

import random
from typing import Any

from penstock.client.consumer.fetching.fetch_buffer import FetchBuffer
from penstock.client.environment import ClientEnvironment
from penstock.client.producer.memory import MemoryPool
from penstock.clock import ManualClock
from tests.support.fake_network import FakeNetwork
from tests.support.stepped_threads import SteppedThreads
from tests.support.virtual_time import virtual_clock


def no_background() -> Any:
    raise AssertionError("a plain client, where only async ones are")


def stepped_threads(seed: int = 0) -> SteppedThreads:
    return SteppedThreads(random.Random(seed))


def fake_environment(network: FakeNetwork, seed: int = 0) -> ClientEnvironment:
    """Makes the environment of clients on the running loop of virtual time."""
    return ClientEnvironment(virtual_clock(), network, random.Random(seed), stepped_threads(seed), no_background)


def still_environment() -> ClientEnvironment:
    """Makes the environment of a client that neither waits nor calls: time stands still, the network is empty."""
    return ClientEnvironment(ManualClock(), FakeNetwork(), random.Random(0), stepped_threads(), no_background)


def buffer_of(limit_bytes: int) -> FetchBuffer:
    """A fetch buffer without a fetcher that waits for its room."""
    return FetchBuffer(limit_bytes, stepped_threads(), nothing)


def pool_of(total_bytes: int) -> MemoryPool:
    return MemoryPool(total_bytes, stepped_threads())


def nothing() -> None:
    """Does nothing: for a callback that a test does not look at."""
