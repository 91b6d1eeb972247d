"""A herd of connections that a flood keeps: opened one after the other, replaced when the node ends one.

A flood is a generator that yields the seconds that it waits; the flooder takes them as steps, in between which it
rests (flooder.py). What the node did to the herd is told as figures: connections opened, ended by the node, refused at
once, and the age of the oldest that the node has let live.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from tests.attack.floods.links import TIMEOUT_S, Target, is_there

Steps = Iterator[float]
ROUND_S = 0.25
FAILED = (OSError, ssl.SSLError, ValueError, EOFError)
"""Whatever a connection comes to that the node does not want."""
FAILED_PAUSE_S = 0.02


class Link(Protocol):
    """A connection, with a protocol on it or without."""

    @property
    def sock(self) -> socket.socket: ...
    def close(self) -> None: ...


@dataclass(eq=False)
class Bare:
    """A connection without a protocol."""

    sock: socket.socket

    def close(self) -> None:
        self.sock.close()


@dataclass
class Herd:
    """A number of links, `size` at most; `make` opens one and sends its first bytes."""

    target: Target
    size: int
    make: Callable[[], Link]
    a_round: int = 1_000
    """The most links that are opened in a round."""
    between_s: float = 0.0
    """The time between two, where a listener's queue of new connections is short."""
    is_replaced: bool = True
    """False: a link that the node ends is missed."""
    links: dict[Link, float] = field(default_factory=dict, init=False)
    """Every open link, with the time when it was opened."""

    def kept(self, drip: Callable[[Link], object] | None = None, every_s: float = ROUND_S) -> Steps:
        """Keeps the herd whole; `drip` is done to each link once a round."""
        while True:
            yield from self._filled()
            yield every_s
            for link in list(self.links):
                if not is_there(link.sock):
                    self._drop(link)
                elif drip is not None:
                    try:
                        drip(link)
                    except FAILED:
                        self._drop(link)
            yield 0.0
            if self.links:
                self.target.most("oldest_s", time.monotonic() - min(self.links.values()))
                self.target.most("held", len(self.links))

    def _filled(self) -> Steps:
        wanted = self.size - (len(self.links) if self.is_replaced else int(self.target.figures.get("opened", 0)))
        for _ in range(min(wanted, self.a_round)):
            try:
                link = self.make()
            except FAILED:
                self.target.add("refused")
                yield FAILED_PAUSE_S
                continue
            self.links[link] = time.monotonic()
            self.target.add("opened")
            yield self.between_s

    def _drop(self, link: Link) -> None:
        self.target.most("oldest_s", time.monotonic() - self.links.pop(link))
        self.target.add("ended_by_node")
        link.close()


def drained(link: Link) -> None:
    """Throws away what has come, and waits for nothing. ConnectionError once the node has ended the connection."""
    link.sock.setblocking(False)
    try:
        while link.sock.recv(1 << 16):
            continue
        raise ConnectionError("closed by the node")
    except (BlockingIOError, ssl.SSLWantReadError):
        return
    finally:
        link.sock.settimeout(TIMEOUT_S)


def again(target: Target, act: Callable[[], object], figure: str = "done") -> Steps:
    """Does it again and again, as fast as the flooder may."""
    while True:
        try:
            act()
            target.add(figure)
            yield 0.0
        except FAILED:
            target.add("refused")
            yield FAILED_PAUSE_S


def on_links(target: Target, make: Callable[[], Link], act: Callable[[Link], object], links: int = 1) -> Steps:
    """Does it again and again on links in turn, which are opened anew when they end. The figure `of_link` says how
    often it was done on each."""
    open_links: list[Link | None] = [None] * links
    while True:
        for at, link in enumerate(open_links):
            try:
                if link is None:
                    link = open_links[at] = make()
                    target.add("opened")
                act(link)
                target.add("done")
                target.figures["of_link"] = target.figures["done"] // target.figures["opened"]
                yield 0.0
            except FAILED:
                target.add("refused")
                if link is not None:
                    link.close()
                open_links[at] = None
                yield FAILED_PAUSE_S
