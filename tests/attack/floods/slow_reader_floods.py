"""Floods of clients that leave their answers unread for long and are not cut: they read at the least pace, or the node
is patient (connections.max.write.stall.ms).

So what a node keeps for such a client is bounded by its other limits alone. Not here: clients that are cut soon
(kafka_floods.py).
"""

from __future__ import annotations

import ssl
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from penstock.pb import broker_pb2
from tests.attack.floods.h2_link import SERVICE, H2Link
from tests.attack.floods.herd import Herd, Link, Steps
from tests.attack.floods.kafka_floods import LIST_OFFSETS, METADATA, NAMES, SMALL_BUFFER
from tests.attack.floods.links import PRODUCE, Target, data, text

READERS, READ_BYTES, SENDING_S = 40, 32 << 10, 0.5
WRITERS, FRAMES, NAMES_EACH, LONGEST = 100, 50, 2, 30_000
LONG_NAMES, BLOCK_BYTES = 160, 1 << 20
FILLING: Final = 200
PRODUCED, LOOKED_UP = 10_000, 9_000
CALLERS, CALLS_EACH = 30, 100
NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


def slowly_read_metadata(target: Target) -> Steps:
    """Answers of 5 MB about 20,000 names that are not there."""
    names = b"".join(text(f"{number:08d}" + "n" * 240) for number in range(NAMES))
    return _slowly_read(target, METADATA, 1, struct.pack(">i", NAMES) + names)


def _slowly_read(target: Target, key: int, version: int, body: bytes) -> Steps:
    """Answers are read at 128 kB a second, so that one takes half a minute. Those that wait for room must take no
    memory meanwhile."""

    def make() -> Link:
        link = target.kafka_link(SMALL_BUFFER)
        link.sock.settimeout(SENDING_S)
        with suppress(TimeoutError):  # the node reads no further
            link.send(key, version, body)
        link.sock.setblocking(False)
        return link

    return Herd(target, READERS, make, is_replaced=False).kept(lambda link: _read(target, link, READ_BYTES))


def _never_waiting(target: Target) -> tuple[Callable[[], Link], dict[Link, int]]:
    """Makes links whose sends and reads never wait, and has a count of the bytes that each link has sent."""
    sent: dict[Link, int] = {}

    def make() -> Link:
        link = target.kafka_link(SMALL_BUFFER)
        link.sock.setblocking(False)
        sent[link] = 0
        return link

    return make, sent


def slowly_read_names(target: Target) -> Steps:
    """Answers of 5 MB about 160 names that are not there, each as long as there may be. They take some milliseconds.
    Twice as much as the operating system takes of each could wait in the node."""
    names = b"".join(text(f"{number:08d}" + "n" * LONGEST) for number in range(LONG_NAMES))
    frame = data(struct.pack(">hhi", METADATA, 1, 1) + text("c") + struct.pack(">i", LONG_NAMES) + names)
    make, sent = _never_waiting(target)

    def act(link: Link) -> None:
        _read(target, link, READ_BYTES)
        with suppress(*NOT_NOW):
            while sent[link] < len(frame):
                sent[link] += link.sock.send(frame[sent[link] : sent[link] + BLOCK_BYTES])
                target.figures["sent"] = sum(sent.values())

    return Herd(target, READERS, make, is_replaced=False).kept(act)


def slowly_read_produces(target: Target) -> Steps:
    """Answers of 2.7 MB about 10,000 topics, each of which is refused."""
    topics = b"".join(text(f"{n:05d}" + "n" * 240) + struct.pack(">iii", 1, 0, 0) for n in range(PRODUCED))
    return _slowly_read(target, PRODUCE, 3, text(None) + struct.pack(">hii", 1, 10_000, PRODUCED) + topics)


def slowly_read_look_ups(target: Target) -> Steps:
    """Answers of 2.7 MB about the offsets of 9,000 topics, each of which is refused."""
    topics = b"".join(text(f"{n:05d}" + "n" * 240) + struct.pack(">iiq", 1, 0, -1) for n in range(LOOKED_UP))
    return _slowly_read(target, LIST_OFFSETS, 1, struct.pack(">ii", -1, LOOKED_UP) + topics)


def unread_produces(target: Target) -> Steps:
    """Produce requests without end to two topics with the longest names, whose answers nobody reads. Each is just small
    enough to count as small, and takes four times its bytes as objects, because a character has four bytes where one
    of the name needs them. They take little time, and soon fill the buffers of the operating system."""
    topics = b"".join(text(f"{n}\U0001f600" + "n" * LONGEST) + struct.pack(">iii", 1, 0, 0) for n in range(NAMES_EACH))
    body = text(None) + struct.pack(">hii", 1, 10_000, NAMES_EACH) + topics
    make, sent = _never_waiting(target)

    def send(link: Link) -> None:
        with suppress(*NOT_NOW):
            for _ in range(FRAMES):
                count = link.sock.send(frame[sent[link] % len(frame) :])
                sent[link] += count
                target.add("sent", count)

    frame = data(struct.pack(">hhi", PRODUCE, 3, 1) + text("c") + body)
    return Herd(target, WRITERS, make, is_replaced=False).kept(send)


def unread_tiny_produces(target: Target) -> Steps:
    """Produce requests of one connection that fill the buffers of the operating system with their answers, and then the
    smallest ones without end. An answer that waits has some 40 bytes then, and its request takes much more."""
    filling = data(struct.pack(">hhi", PRODUCE, 3, 1) + text("c") + _refused("n" * LONGEST)) * FILLING
    tiny = data(struct.pack(">hhi", PRODUCE, 3, 1) + text("c") + _refused("x")) * FRAMES
    make, sent = _never_waiting(target)

    def send(link: Link) -> None:
        with suppress(*NOT_NOW):
            for _ in range(FRAMES):
                at = sent[link]
                part = filling[at:] if at < len(filling) else tiny[(at - len(filling)) % len(tiny) :]
                sent[link] += link.sock.send(part)
                target.figures["sent"] = sum(sent.values())

    return Herd(target, 1, make, is_replaced=False).kept(send)


def _refused(topic: str) -> bytes:
    """A produce request without records to one topic."""
    return text(None) + struct.pack(">hii", 1, 10_000, 1) + text(topic) + struct.pack(">iii", 1, 0, 0)


def calls_begun_together_by_grpc(target: Target) -> Steps:
    """Calls that are all begun before any of them has a message, and whose answers nobody reads. Each message is just
    small enough to count as small, and takes four times its bytes as objects."""
    names = [f"{number}\U0001f600" + "n" * LONGEST for number in range(NAMES_EACH)]
    message = broker_pb2.MetadataRequest(topics=names).SerializeToString()
    left: dict[Link, list[tuple[int, int]]] = {}

    def make() -> Link:
        link = H2Link(target)
        left[link] = [(link.begin_message(f"{SERVICE}Metadata", len(message)), 0) for _ in range(CALLS_EACH)]
        return link

    def send(link: Any) -> None:
        """As much of its messages as the node takes."""
        if len(herd.links) < CALLERS:
            return
        unsent, size = left[link], 1
        while unsent and size:
            stream, at = unsent[0]
            size = link.more(stream, message[at:])
            target.add("bytes", size)
            unsent[0] = stream, at + size
            if at + size == len(message):
                link.end(stream)
                del unsent[0]
                target.add("calls")

    herd = Herd(target, CALLERS, make, is_replaced=False)
    return herd.kept(send)


def _read(target: Target, link: Link, size: int) -> None:
    with suppress(*NOT_NOW):
        target.add("bytes", len(link.sock.recv(size)))


SLOW_READER_FLOODS: Final = {
    flood.__name__.replace("_", "-"): flood
    for flood in (
        slowly_read_metadata,
        slowly_read_names,
        slowly_read_produces,
        slowly_read_look_ups,
        unread_produces,
        unread_tiny_produces,
        calls_begun_together_by_grpc,
    )
}
