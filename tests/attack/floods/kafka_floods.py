"""Floods at KAFKA: frames that are announced and do not come, requests that cost more than they weigh, answers that
nobody reads.

Each takes a Target, which says who floods and from where, and is a generator of steps (herd.py). Not here: floods below
the protocol, which every listener knows (connection_floods.py), and names by the thousand (name_floods.py,
coordinator_floods.py).
"""

from __future__ import annotations

import struct
import time
from contextlib import suppress
from itertools import count, cycle
from typing import Any, Final

from penstock.record.builder import build_batch
from tests.attack.floods.herd import Herd, Link, Steps, drained, on_links
from tests.attack.floods.links import KafkaLink, Target, data, text

PRODUCE, FETCH, LIST_OFFSETS, METADATA, HEARTBEAT, API_VERSIONS = 0, 1, 2, 3, 12, 18
CREATE_TOPICS, ALTER_QUOTAS, DESCRIBE_CONFIGS = 19, 49, 32
BEFORE_LOG_IN_BYTES: Final = 64 << 10
"""The largest frame that a listener with SASL takes before a log-in."""
LARGEST_BYTES: Final = 100 << 20
TENANTS_TOPIC: Final = "tenant-topic"
SMALL_BUFFER: Final = 4_096
HERD: Final = 270
"""So many frames of 64 KiB are more than the default budget for small requests (16 MiB)."""
CROWDING_BYTES: Final = 3 << 20
FLOOR_BYTES: Final = 7 << 18
"""A 64th of the default memory for large requests."""
PIECE: Final = bytes(1 << 20)
UNREAD, UNREAD_EACH = 60, 2
NAMES: Final = 20_000
HUNDREDS: Final = 400


def _herd(target: Target, size: int, said: bytes) -> Herd:
    def make() -> KafkaLink:
        link = target.kafka_link()
        link.sock.sendall(said)
        target.add("bytes", len(said))
        return link

    return Herd(target, size, make)


def announced_frames(target: Target) -> Steps:
    """Frames of 64 KiB, the largest before a log-in, of which only the size is sent: four bytes."""
    return _herd(target, HERD, struct.pack(">i", BEFORE_LOG_IN_BYTES)).kept()


def announced_large_frames(target: Target) -> Steps:
    """The largest frames there may be are announced, and come at 1.2 kB a second."""
    drip = bytes(300)
    return _herd(target, 2 * len(target.sources), struct.pack(">i", LARGEST_BYTES)).kept(
        lambda link: link.sock.send(drip)
    )


def announced_frames_of_all_sizes(target: Target) -> Steps:
    """Frames of 1 KiB to 64 MiB. Half of each comes at once, 256 KiB at most, and the rest drips."""
    sizes = cycle([1 << power for power in range(10, 27)])

    def make() -> KafkaLink:
        link, size = target.kafka_link(), next(sizes)
        link.sock.sendall(struct.pack(">i", size) + bytes(min(size // 2, 256 << 10)))
        return link

    return Herd(target, 60, make).kept(lambda link: link.sock.send(bytes(300)))


def dripping_frames(target: Target) -> Steps:
    """Frames of 1 KiB of which a byte comes now and then."""
    return _herd(target, 200, struct.pack(">i", 1_024)).kept(lambda link: link.sock.send(b"\0"))


def frames_at_a_fair_pace(target: Target) -> Steps:
    """Frames of 64 KiB that come at 3 kB a second, which is above the pace at which a frame of a user may come."""
    part = bytes(750)
    return _herd(target, 30, struct.pack(">i", BEFORE_LOG_IN_BYTES)).kept(lambda link: link.sock.send(part))


def frames_of_many_networks(target: Target) -> Steps:
    """One frame of 3 MiB from each address, of which as much comes at once as a network has of a full memory, and the
    rest at a pace at which a frame may come."""
    sent: dict[Link, int] = {}
    block, drip = bytes(256 << 10), bytes(CROWDING_BYTES // 60 // 4 + 1_000)

    def make() -> Link:
        link = target.kafka_link()
        link.sock.sendall(struct.pack(">i", CROWDING_BYTES))
        link.sock.setblocking(False)
        sent[link] = 0
        return link

    def more(link: Link) -> None:
        size = link.sock.send(block if sent[link] < FLOOR_BYTES else drip)
        sent[link] += size
        target.add("bytes", size)

    def act(link: Link) -> None:
        with suppress(BlockingIOError):
            more(link)
            while sent[link] < FLOOR_BYTES:
                more(link)

    return Herd(target, len(target.sources), make).kept(act)


def frames_above_the_limit(target: Target) -> Steps:
    """Frames of 1 GiB are announced, and drip."""
    return _herd(target, 20, struct.pack(">i", 1 << 30)).kept(lambda link: link.sock.send(bytes(300)))


def frames_too_large(target: Target) -> Steps:
    """Frames above the limit come as fast as they are taken: of 32 MiB before a log-in, of 120 MiB after it."""
    pieces = 120 if target.user else 32
    sent: dict[Link, int] = {}

    def make() -> Link:
        link = target.kafka_link()
        link.sock.sendall(struct.pack(">i", pieces << 20))
        sent[link] = 0
        return link

    def act(link: Link) -> None:
        link.sock.sendall(PIECE)
        sent[link] += 1
        target.add("whole", sent[link] % pieces == 0)

    return on_links(target, make, act)


def large_frames(target: Target) -> Steps:
    """Produce requests of 1 MB, whole, by 20 connections; a tenant's are written, those of others refused."""
    batch = build_batch([bytes(1_000_000)], timestamps_ms=int(time.time() * 1_000))
    return on_links(target, target.kafka_link, lambda link: link.produce(TENANTS_TOPIC, batch), 20)


# -- requests that cost more than they weigh ---------------------------------------------------------------------------


def _uvarint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


def tags(size: int) -> bytes:
    """A section of unknown tagged fields without values, as many as fit."""
    parts, have = list[bytes](), 0
    for tag in count(1_000):
        if have >= size:
            break
        parts.append(_uvarint(tag) + b"\0")
        have += len(parts[-1])
    return _uvarint(len(parts)) + b"".join(parts)


def _tagged(target: Target, size: int, links: int) -> Steps:
    if target.user or not target.ca:
        frame = data(struct.pack(">hhi", PRODUCE, 9, 1) + text("m") + tags(size))
    else:
        frame = data(struct.pack(">hhi", API_VERSIONS, 3, 1) + text("m") + tags(size) + b"\x02a\x021\0")

    def act(link: Any) -> None:
        link.sock.sendall(frame)
        drained(link)

    return on_links(target, target.kafka_link, act, links)


def tagged_fields(target: Target) -> Steps:
    """Frames of 64 KiB full of unknown tagged fields."""
    return _tagged(target, BEFORE_LOG_IN_BYTES - 200, 4)


def tagged_fields_large(target: Target) -> Steps:
    """Frames of 8 MiB full of unknown tagged fields."""
    return _tagged(target, 8 << 20, 1)


def huge_arrays(target: Target) -> Steps:
    """Requests with 20,000 names each, on 10 connections, which wait for no answer."""
    names = struct.pack(">i", NAMES) + text("x") * NAMES

    def act(link: Any) -> None:
        link.send(METADATA, 1, names)
        drained(link)

    return on_links(target, target.kafka_link, act, 10)


def refused_produces(target: Target) -> Steps:
    """Produce requests to 400 topics each, far below those that count as heavy, on 20 connections that wait for no
    answer."""
    topics = b"".join(text(f"x{number}") + struct.pack(">iii", 1, 0, 0) for number in range(HUNDREDS))
    body = text(None) + struct.pack(">hii", 1, 10_000, HUNDREDS) + topics

    def act(link: Any) -> None:
        link.send(PRODUCE, 3, body)
        drained(link)

    return on_links(target, target.kafka_link, act, 20)


def array_that_is_announced(target: Target) -> Steps:
    """Frames that announce 2³¹−1 elements and have none."""

    def act(link: Any) -> None:
        link.send(METADATA, 1, struct.pack(">i", (1 << 31) - 1))
        link.receive()

    return on_links(target, target.kafka_link, act, 4)


def metadata_of_all_topics(target: Target) -> Steps:
    def act(link: Any) -> None:
        link.send(METADATA, 1, struct.pack(">i", -1))
        link.receive()

    return on_links(target, target.kafka_link, act, 10)


def pipelined(target: Target) -> Steps:
    """200 small requests at once on 4 connections, whose answers are read afterwards."""

    def act(link: Any) -> None:
        link.sock.sendall(b"".join(link.framed(API_VERSIONS, 0, b"") for _ in range(200)))
        for _ in range(200):
            link.receive()

    return on_links(target, target.kafka_link, act, 4)


def refused_requests(target: Target) -> Steps:
    """Topics are made and quotas changed by who may not: each is a line of the audit log."""
    topic = struct.pack(">i", 1) + text("stolen") + struct.pack(">ihiii", 1, 1, 0, 0, 1_000) + b"\0"
    quota = struct.pack(">ii", 1, 1) + text("user") + text("x") + struct.pack(">i", 1)
    quota += text("request_percentage") + struct.pack(">d?", 1.0, False) + b"\0"

    def act(link: Any) -> None:
        link.send(CREATE_TOPICS, 2, topic)
        link.send(ALTER_QUOTAS, 0, quota)
        link.receive()
        link.receive()

    return on_links(target, target.kafka_link, act, 4)


# -- answers that nobody reads -----------------------------------------------------------------------------------------


def _unread(target: Target, size: int, key: int, version: int, body: bytes) -> Steps:
    def make() -> Link:
        link = target.kafka_link(SMALL_BUFFER)
        for _ in range(UNREAD_EACH):
            link.send(key, version, body)
        return link

    return Herd(target, size, make, is_replaced=False).kept()


def unread_metadata(target: Target) -> Steps:
    """Answers about 20,000 names that are not there: 5 MB each."""
    names = b"".join(text(f"{number:08d}" + "n" * 240) for number in range(NAMES))
    return _unread(target, UNREAD, METADATA, 1, struct.pack(">i", NAMES) + names)


def heartbeats_beside_unread_answers(target: Target) -> Steps:
    """A member of the flooder's own party says that it lives, beside connections that ask for much and read nothing."""
    names = b"".join(text(f"{number:08d}" + "n" * 240) for number in range(NAMES))

    def make() -> Link:
        link = target.kafka_link(SMALL_BUFFER)
        link.send(METADATA, 1, struct.pack(">i", NAMES) + names)
        return link

    member = target.kafka_link(timeout_s=30.0)
    beat = text("tenant-group") + struct.pack(">i", 1) + text("member")
    for wait_s in Herd(target, 3, make).kept():
        began = time.monotonic()
        member.ask(HEARTBEAT, 0, beat)
        target.most("heartbeat_s", time.monotonic() - began)
        target.add("heartbeats")
        yield wait_s


def unread_fetches(target: Target) -> Steps:
    """Fetch answers of as many bytes as there may be."""
    body = struct.pack(">iiiibi", -1, 500, 1, 50 << 20, 0, 1) + text(TENANTS_TOPIC)
    body += struct.pack(">iiqi", 1, 0, 0, 50 << 20)
    return _unread(target, UNREAD, FETCH, 4, body)


def unread_small_answers(target: Target) -> Steps:
    """Requests without end on 20 connections; no answer is read."""

    def make() -> Link:
        return target.kafka_link(SMALL_BUFFER)

    def drip(link: Any) -> None:
        link.sock.setblocking(False)
        link.sock.send(b"".join(link.framed(API_VERSIONS, 0, b"") for _ in range(100)))

    return Herd(target, 20, make, is_replaced=False).kept(drip, 0.05)


KAFKA_FLOODS: Final = {
    flood.__name__.replace("_", "-"): flood
    for flood in (
        announced_frames,
        announced_large_frames,
        announced_frames_of_all_sizes,
        dripping_frames,
        frames_at_a_fair_pace,
        frames_of_many_networks,
        frames_above_the_limit,
        frames_too_large,
        large_frames,
        tagged_fields,
        tagged_fields_large,
        huge_arrays,
        refused_produces,
        array_that_is_announced,
        metadata_of_all_topics,
        pipelined,
        refused_requests,
        heartbeats_beside_unread_answers,
        unread_metadata,
        unread_fetches,
        unread_small_answers,
    )
}
