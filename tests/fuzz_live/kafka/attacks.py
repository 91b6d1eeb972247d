"""Attacks on the listeners of Kafka's protocol. Every one is bounded in count and time and goes to the loopback only.

They are coroutines over a Stage (stage.py). Whole requests must be answered, in order, or end their connection; those
that must be refused say so themselves.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Sequence

from broker.kafka.api_reference import LEFT_OUT
from penstock.record.builder import build_batch
from tests.fuzz_live import connections
from tests.fuzz_live.batches import NOW_MS, announcing, bomb, wrong_batches
from tests.fuzz_live.hostile import BULK_PARTITIONS, BULK_TOPIC, HONEST_TOPIC, TOPICS, draw_batch
from tests.fuzz_live.kafka.client import Link, Sent
from tests.fuzz_live.kafka.hostile import empty_arrays
from tests.fuzz_live.kafka.stage import Stage
from tests.support.mutation import mutated

HOLD_S = 4.0
WILD, WILD_LINKS, WILD_PIPELINED = 300, 6, 5
DAMAGED, DAMAGED_AT_ONCE = 300, 25
CUTS = 150
UNKNOWN = ((18, 99), (18, -1), (-1, 0), (30_000, 0), (0, 99), (1, 3), (3, -5), *((key, 0) for key in LEFT_OUT))
ELEMENTS = (1_000, 20_000, 99_000, 500_000)
COSTLY_LINKS, COSTLY_PIPELINED = 40, 6
SIZES = (0, -1, 1, 7, -(1 << 31), (1 << 31) - 1, 100 << 20, (100 << 20) + 1)
LARGE_PRODUCERS, LARGE_PIPELINED, LARGE_BYTES = 40, 8, 1_000_000
NEVER_READ, FETCH_BYTES = 120, 50 << 20
WAITING, WAITING_PIPELINED, WAIT_MS = 100, 15, 30_000
SESSIONS_LINKS, SESSIONS_EACH = 20, 250
SILENT, CHURN, SLOW = 600, 1_500, 40
PIPELINED = 400
GIANT_BYTES = 90_000_000
BEFORE_LAST_S = 1.0


# -- requests in every shape -------------------------------------------------------------------------------------------


async def wild_requests(stage: Stage) -> None:
    """Any API, any version, any values, a few connections."""
    for _ in range(WILD // WILD_LINKS // WILD_PIPELINED):
        drawn = [[stage.draw() for _ in range(WILD_PIPELINED)] for _ in range(WILD_LINKS)]
        await asyncio.gather(*(_ask_once(stage, requests) for requests in drawn))


async def every_version(stage: Stage) -> None:
    """Each API in each version once, on a connection of its own."""
    pairs = [(key, version) for key, (first, last) in stage.served.items() for version in range(first, last + 1)]
    for at in range(0, len(pairs), DAMAGED_AT_ONCE):
        some = [[stage.draw(*pair)] for pair in pairs[at : at + DAMAGED_AT_ONCE]]
        await asyncio.gather(*(_ask_once(stage, requests) for requests in some))


async def damaged_requests(stage: Stage) -> None:
    """Good requests with flipped, cut, repeated and spliced bytes; the size is that of what is left."""
    for _ in range(DAMAGED // DAMAGED_AT_ONCE):
        await asyncio.gather(*(_damaged(stage) for _ in range(DAMAGED_AT_ONCE)))


async def _damaged(stage: Stage) -> None:
    good, other = stage.draw(), stage.draw()
    body = mutated(stage.source, good.frame[4:], other.frame[4:])
    key, version = struct.unpack_from(">hh", body) if len(body) >= 4 else (-1, -1)
    bad = Sent(key, version, struct.pack(">i", len(body)) + body)
    link = await stage.link()
    if link is not None:
        await link.send_damaged(bad)
        await link.finish()
        stage.leave([link])


async def cut_frames(stage: Stage) -> None:
    """One request cut at every place, after which the client half-closes, resets, or says nothing more for a while."""
    good = stage.draw()
    places = range(len(good.frame)) if len(good.frame) <= CUTS else stage.source.sample(range(len(good.frame)), CUTS)
    links = await stage.links(len(places))
    for link, at in zip(links, places, strict=False):
        await link.send_bytes(good.frame[:at])
        if stage.source.random() < 0.5:
            link.end_input()
    await asyncio.sleep(HOLD_S / 4)
    stage.leave(links)


async def wrong_sizes(stage: Stage) -> None:
    """Frames that are shorter or longer than they say, and sizes that none may have."""
    links = await stage.links(3 * len(SIZES))
    for number, link in enumerate(links):
        size, good = SIZES[number % len(SIZES)], stage.draw()
        wrong = struct.pack(">i", size) if number < len(SIZES) else struct.pack(">i", len(good.frame) + 3)
        await link.send_bytes(wrong + good.frame[4:] * (1 + number % 3))
        link.end_input()
    await asyncio.gather(*(link.ends() for link in links))
    stage.leave(links)


async def unserved_requests(stage: Stage) -> None:
    """Keys and versions that the node does not have: each ends its connection, or has ApiVersions' own answer."""
    for _ in range(4):
        links = await stage.links(10)
        for link in links:
            key, version = stage.source.choice(UNKNOWN)
            head = struct.pack(">hhih", key, version, 5, -1) + stage.source.randbytes(20)
            wild = Sent(key, version, struct.pack(">i", len(head)) + head)
            await link.send_damaged(stage.draw_unserved() if stage.source.random() < 0.5 else wild)
        await asyncio.gather(*(link.finish() for link in links))
        stage.leave(links)


async def garbage(stage: Stage) -> None:
    """Bytes of other protocols, noise, and one byte at a time."""
    for port in stage.ports:
        await connections.garbage(stage.host, port, stage.source)
        await connections.one_byte_at_a_time(stage.host, port, stage.draw().frame[:100])


# -- what costs more than its bytes ------------------------------------------------------------------------------------


async def many_elements(stage: Stage) -> None:
    """Arrays of the smallest elements, as many as there may be and more, in each array of some APIs."""
    for key in stage.source.sample(sorted(stage.served), 8):
        version = stage.source.choice(stage.served[key])
        for message in empty_arrays(key, version, stage.source.choice(ELEMENTS)):
            await _ask_once(stage, [stage.ask(message, version)])


async def many_elements_at_once(stage: Stage) -> None:
    """Many connections send such requests but for their last bytes, and then those all at once."""
    key = stage.source.choice(sorted(stage.served))
    version = stage.served[key][1]
    for message in empty_arrays(key, version, stage.source.choice(ELEMENTS[1:3])):
        costly = stage.ask(message, version)
        links = await stage.links(COSTLY_LINKS)
        data = costly.frame * COSTLY_PIPELINED
        await asyncio.gather(*(link.send_bytes(data[: len(costly.frame) - 1]) for link in links))
        await asyncio.sleep(BEFORE_LAST_S)
        rest = data[len(costly.frame) - 1 :]
        sending = [asyncio.ensure_future(link.send_bytes(rest)) for link in links]
        await asyncio.sleep(HOLD_S)
        stage.leave(links)
        await asyncio.gather(*sending)


async def answers_never_read(stage: Stage) -> None:
    """Metadata of everything, hundreds of times on each connection, and nobody reads."""
    links = await stage.links(NEVER_READ)
    data = b"".join(stage.metadata_of_all().frame for _ in range(PIPELINED))
    await asyncio.gather(*(link.send_bytes(data) for link in links))
    await asyncio.sleep(HOLD_S)
    stage.leave(links)


async def giants(stage: Stage) -> None:
    """Requests of 90 MB that are no records, and one that never comes."""

    async def giant(link: Link) -> None:
        good = stage.draw(3)
        size = struct.pack(">i", GIANT_BYTES)
        if await link.send_bytes(size + good.frame[4:] + bytes(GIANT_BYTES // 2)):
            await link.send_bytes(bytes(GIANT_BYTES // 2 - len(good.frame) + 4))

    links = await stage.links(6)
    await asyncio.wait([asyncio.ensure_future(giant(link)) for link in links], timeout=HOLD_S)
    stage.leave(links)


# -- record batches ----------------------------------------------------------------------------------------------------


async def bad_batches(stage: Stage) -> None:
    """Headers with one number that is wrong, and batches that are damaged or more than one."""
    drawn = [draw_batch(stage.source) for _ in range(60)]
    requests = [stage.produce(data) for data in (*wrong_batches(stage.source), *drawn)]
    for port in stage.ports:
        await _ask_once(stage, requests, port)


async def announced_records(stage: Stage) -> None:
    """Tiny batches that announce 2³¹−1 records: refused, alone and together."""
    for data in (announcing(), announcing() * 2_000):
        for port in stage.ports:
            await _must_refuse(stage, stage.produce(data), port)


async def bombs(stage: Stage) -> None:
    """Few bytes that open to very many."""
    data, is_too_much = await asyncio.to_thread(bomb, stage.source)
    for port in stage.ports:
        request = stage.produce(data)
        if is_too_much:
            await _must_refuse(stage, request, port)
        else:
            await _ask_once(stage, [request], port)


async def forged_replica(stage: Stage) -> None:
    """A fetch in a broker's name: it must not count as an ack."""
    for port in stage.ports:
        for node in range(len(stage.ports)):
            request = stage.fetch(HONEST_TOPIC, 1, 1 << 20, replica_id=node)
            await _must_refuse(stage, request, port)


# -- rate and order ----------------------------------------------------------------------------------------------------


async def large_producers(stage: Stage) -> None:
    """Large requests, pipelined, whose answers nobody reads; then the clients go in the middle of one."""
    batch = build_batch([stage.source.randbytes(LARGE_BYTES)], timestamps_ms=NOW_MS)
    links = await stage.links(LARGE_PRODUCERS)

    async def produce(link: Link) -> None:
        for _ in range(LARGE_PIPELINED):
            await link.send_bytes(stage.produce(batch, acks=stage.source.choice((-1, 1, 0))).frame)
        await link.send_bytes(stage.produce(batch).frame[: LARGE_BYTES // 2])

    sending = [asyncio.ensure_future(produce(link)) for link in links]
    await asyncio.wait(sending, timeout=2 * HOLD_S)
    stage.leave(links)
    await asyncio.gather(*sending)


async def without_acks(stage: Stage) -> None:
    """Hundreds of acks=0 among others on one connection; one in the middle fails, and ends it."""
    good = build_batch([b"v"], timestamps_ms=NOW_MS)
    for fails_at in (0, 1, PIPELINED // 2, None):
        requests: list[Sent] = []
        for number in range(PIPELINED):
            topic = "nobody-made-this" if number == fails_at else TOPICS[number % len(TOPICS)]
            requests.append(stage.produce(good, 0 if number == fails_at else stage.source.choice((0, 0, 1, -1)), topic))
        await _ask_once(stage, requests)


async def fetches_never_read(stage: Stage) -> None:
    """Fetches of 4 × 50 MiB on many connections that read nothing."""
    links = await stage.links(NEVER_READ)
    data = b"".join(stage.fetch(BULK_TOPIC, BULK_PARTITIONS, max_bytes=FETCH_BYTES).frame for _ in range(4))
    await asyncio.gather(*(link.send_bytes(data) for link in links))
    await asyncio.sleep(HOLD_S)
    stage.leave(links)


async def fetches_waiting(stage: Stage) -> None:
    """Pipelined fetches that wait for records which never come; some half-close, then all go at once."""
    links = await stage.links(WAITING)
    data = b"".join(
        stage.fetch(TOPICS[0], 3, 0, WAIT_MS, min_bytes=(1 << 31) - 1).frame for _ in range(WAITING_PIPELINED)
    )
    await asyncio.gather(*(link.send_bytes(data) for link in links))
    for link in links[::3]:
        link.end_input()
    await asyncio.sleep(HOLD_S)
    stage.leave(links)


async def waits_for_ever(stage: Stage) -> None:
    """Wild requests with any wait; nobody waits for their answers."""
    links = await stage.links(WILD_LINKS * 5)
    for link in links:
        await link.send_bytes(b"".join(stage.draw(may_wait=True).frame for _ in range(10)))
    await asyncio.sleep(HOLD_S)
    stage.leave(links)


async def fetch_sessions(stage: Stage) -> None:
    """Sessions by the thousand that nobody goes on with, and requests in sessions that there are not."""
    links = await stage.links(SESSIONS_LINKS)

    async def begin(link: Link) -> None:
        for _ in range(SESSIONS_EACH // 10):
            wanted = [
                stage.fetch(stage.source.choice((*TOPICS, BULK_TOPIC)), 3, 0, 0, 1, session_epoch=0) for _ in "12345678"
            ]
            epoch, number = stage.source.choice((1, 2, -1, -9, 1 << 30)), stage.source.randrange(1 << 31)
            wanted.append(stage.fetch(TOPICS[0], 1, session_id=number, session_epoch=epoch))
            if not await _ask(link, wanted):
                return

    await asyncio.gather(*(begin(link) for link in links))
    stage.leave(links)


async def pipelines(stage: Stage) -> None:
    """Hundreds of wild requests at once on a few connections, all answered in order."""
    links = await stage.links(WILD_LINKS)
    calm = [key for key in stage.served if key in (1, 2, 3, 10, 18, 22, 23, 32, 60)]
    await asyncio.gather(
        *(_ask(link, [stage.draw(stage.source.choice(calm)) for _ in range(PIPELINED)]) for link in links)
    )
    stage.leave(links)


# -- connections -------------------------------------------------------------------------------------------------------


async def silent_connections(stage: Stage) -> None:
    """Hundreds that say nothing."""
    await connections.silent(stage.host, stage.ports, SILENT, HOLD_S)


async def few_descriptors(stage: Stage) -> None:
    """More silent connections to one node than it has descriptors left: it must go on with those that it has."""
    node = stage.source.randrange(len(stage.pids))
    await connections.more_than_descriptors(stage.host, stage.ports[node], stage.pids[node], HOLD_S)


async def churn(stage: Stage) -> None:
    """Connections that go as soon as they have come, some after a request."""
    for _ in range(CHURN // 50):
        links = await stage.links(50)
        for number, link in enumerate(links):
            if number % 3 == 0:
                await link.send_bytes(stage.draw().frame)
        stage.leave(links)


async def slow_connections(stage: Stage) -> None:
    """A byte now and then, of frames that are announced as large."""
    links = await stage.links(SLOW)
    for link in links:
        await link.send_bytes(struct.pack(">i", 50 << 20))
    for _ in range(int(2 * HOLD_S)):
        for link in links:
            await link.send_bytes(b"\0")
        await asyncio.sleep(0.5)
    stage.leave(links)


Attack = Callable[[Stage], Awaitable[None]]
ATTACKS: dict[str, Attack] = {
    attack.__name__.replace("_", "-"): attack
    for attack in (
        wild_requests,
        every_version,
        damaged_requests,
        cut_frames,
        wrong_sizes,
        unserved_requests,
        garbage,
        many_elements,
        many_elements_at_once,
        answers_never_read,
        giants,
        bad_batches,
        announced_records,
        bombs,
        forged_replica,
        large_producers,
        without_acks,
        fetches_never_read,
        fetches_waiting,
        waits_for_ever,
        fetch_sessions,
        pipelines,
        silent_connections,
        few_descriptors,
        churn,
        slow_connections,
    )
}


# -- parts -------------------------------------------------------------------------------------------------------------


async def _ask(link: Link, requests: Sequence[Sent]) -> bool:
    """Sends them all and takes all answers meanwhile. False if the node has ended the connection."""
    sending = asyncio.ensure_future(link.send(requests))
    await asyncio.sleep(0)  # what is expected is noted
    is_open = await link.finish()
    await sending
    return is_open


async def _ask_once(stage: Stage, requests: Sequence[Sent], port: int | None = None) -> bool:
    """On a connection of their own. True if all that are answered were."""
    link = await stage.link(port)
    if link is None:
        return False
    is_open = await _ask(link, requests)
    stage.leave([link])
    return is_open


async def _must_refuse(stage: Stage, request: Sent, port: int) -> None:
    """An answer without an error is reported."""
    errors = stage.answers.codes.total() - stage.answers.codes[0]
    is_answered = await _ask_once(stage, [request], port)
    if is_answered and stage.answers.codes.total() - stage.answers.codes[0] == errors:
        stage.answers.report(
            f"{request.name} accepted what it must refuse", f"port {port}: {request.frame[:200].hex()}"
        )
