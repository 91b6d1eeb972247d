"""Floods below the protocols, which every listener knows: connections that say nothing, halves of handshakes, many
addresses, log-ins that fail; and those of the metrics listener.

Each takes a Target and the listener's name, and is a generator of steps (herd.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, Final

from tests.attack.floods.h2_link import PREFACE, SETTINGS, h2_frame
from tests.attack.floods.herd import FAILED, Bare, Herd, Steps, again
from tests.attack.floods.links import AUTHENTICATE, HANDSHAKE, MECHANISM, Target, data, text

SILENT, HALVES, DRIPPING, STAYING = 800, 300, 200, 450
HELLO: Final = bytes.fromhex("16030100c8010000c40303")
"""The beginning of a TLS handshake, whose rest never comes."""
BETWEEN_S: Final = 0.005
"""The queue of the metrics listener is short."""
GUESSES: Final = 40
GUESSED_USER: Final = "tenant"
SCRAPERS: Final = 20
PLACES_TAKEN, BURST = 95, 32
DOORS: Final = ("KAFKA", "BROKER", "METRICS")
SCRAPE: Final = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


def _herd(target: Target, size: int, door: str, make: Callable[[], Bare], a_round: int = 1_000) -> Herd:
    return Herd(target, size, make, a_round, BETWEEN_S if door == "METRICS" else 0.0)


def silent_connections(target: Target, door: str) -> Steps:
    """They say nothing; at TLS not even a handshake. gRPC accepts all, and the node looks at them afterwards, so they
    do not come all at once."""
    return _herd(target, SILENT, door, lambda: Bare(target.plain_socket(door)), a_round=40).kept()


def half_handshakes(target: Target, door: str) -> Steps:
    """Some bytes of a handshake each."""

    def make() -> Bare:
        found = target.plain_socket(door)
        found.sendall(HELLO)
        return Bare(found)

    return Herd(target, HALVES, make).kept()


def connections_that_come_and_go(target: Target, door: str) -> Steps:
    return again(target, lambda: target.plain_socket(door).close())


def handshakes(target: Target, door: str) -> Steps:
    """Whole handshakes, after which the connection is closed."""
    return again(target, lambda: target.socket(door).close())


def connections_to_the_limit(target: Target, door: str) -> Steps:
    """More connections than there may be, from many addresses, with a handshake and the first bytes of HTTP/2."""

    def make() -> Bare:
        found = target.socket(door)
        if door == "BROKER":
            found.sendall(PREFACE + h2_frame(SETTINGS, 0, 0, b""))
        return Bare(found)

    return Herd(target, 5 * len(target.sources), make).kept()


# -- log-ins -----------------------------------------------------------------------------------------------------------


def guesses(target: Target) -> Steps:
    """Wrong passwords of a user that there is, 40 at once."""
    stranger = Target(target.kafka, 0, 0, target.ca, sources=target.sources, host=target.host, figures=target.figures)
    for number in count():
        under_way = []
        for _ in range(GUESSES):
            try:
                link = stranger.kafka_link()
                under_way.append((link, link.proof(GUESSED_USER, f"guess {number}")))
            except FAILED:
                target.add("refused")
            yield 0.0
        for link, proof in under_way:
            link.send(AUTHENTICATE, 0, data(proof))
        for link, _ in under_way:
            try:
                link.authenticated()
            except PermissionError:
                target.add("heard")
            except FAILED:  # a guess for which there was no place: the connection is closed
                target.add("throttled")
            link.close()
            yield 0.0
        heard, throttled = target.figures.get("heard", 0), target.figures.get("throttled", 0)
        target.figures["heard_percent"] = round(100 * heard / max(heard + throttled, 1))


def log_ins_half_done(target: Target) -> Steps:
    """The first half of a log-in on 300 connections, and the second never."""
    first = data(b"n,,n=tenant,r=0123456789abcdef")

    def make() -> Any:
        link = target.kafka_link()
        link.ask(HANDSHAKE, 1, text(MECHANISM))
        link.send(AUTHENTICATE, 0, first)
        return link

    return Herd(target, HALVES, make).kept()


def log_ins(target: Target) -> Steps:
    """Log-ins that are right, again and again."""
    return again(target, lambda: target.kafka_link().close())


def log_ins_that_stay(target: Target) -> Steps:
    """As many connections as there may be of all clients, and more, with a log-in each."""
    return Herd(target, STAYING, target.kafka_link).kept()


# -- the metrics listener ----------------------------------------------------------------------------------------------


def scrapes(target: Target) -> Steps:
    """20 scrapers at once, which ask anew as soon as all have the page."""
    while True:
        asked = []
        for _ in range(SCRAPERS):
            try:
                asked.append(target.plain_socket("METRICS"))
                asked[-1].sendall(SCRAPE)
            except FAILED:
                target.add("refused")
            yield BETWEEN_S
        for one in asked:
            try:
                while one.recv(1 << 18):
                    continue
                target.add("pages")
            except FAILED:
                target.add("refused")
            one.close()
            yield 0.0


def scrapes_unread(target: Target) -> Steps:
    """Scrapers who never read the page."""

    def make() -> Bare:
        found = target.plain_socket("METRICS", 4_096)
        found.sendall(SCRAPE)
        return Bare(found)

    return _herd(target, DRIPPING, "METRICS", make).kept()


def bursts_of_scrapers(target: Target) -> Steps:
    """One address fills what is left of the places at once, and others come in the same moment, for which it gives way.
    The next time it is another address."""
    for turn in count():
        first, *others = (*target.sources[turn % len(target.sources) :], *target.sources[: turn % len(target.sources)])
        links = list[Any]()

        def connect(source: str, links: list[Any] = links) -> None:
            try:
                links.append(replace(target, sources=(source,)).plain_socket("METRICS"))
            except FAILED:
                target.add("refused")

        for source in others[:PLACES_TAKEN]:
            connect(source)
        yield 0.1
        for source in (*[first] * BURST, *others[PLACES_TAKEN:]):
            connect(source)
        target.add("bursts")
        yield 0.02
        for link in links:
            link.close()
        yield 0.8  # there are places for everybody


def dripping_scrapers(target: Target) -> Steps:
    """Requests whose next byte comes now and then."""
    herd = _herd(target, DRIPPING, "METRICS", lambda: Bare(target.plain_socket("METRICS")))
    return herd.kept(lambda link: link.sock.send(b"G"), 0.5)


BELOW: Final[tuple[Callable[[Target, str], Steps], ...]] = (
    silent_connections,
    half_handshakes,
    connections_that_come_and_go,
    handshakes,
    connections_to_the_limit,
)
CONNECTION_FLOODS: Final[dict[str, Callable[[Target], Steps]]] = {
    **{
        f"{flood.__name__.replace('_', '-')}@{door}": partial(_at, flood, door)
        for flood in BELOW
        for door in DOORS
        for _at in (lambda flood, door, target: flood(target, door),)
    },
    **{
        flood.__name__.replace("_", "-"): flood
        for flood in (
            guesses,
            log_ins_half_done,
            log_ins,
            log_ins_that_stay,
            scrapes,
            scrapes_unread,
            bursts_of_scrapers,
            dripping_scrapers,
        )
    },
}
