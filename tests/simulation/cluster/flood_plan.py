"""The flooders of a plan: clients that take as much of a broker's memory as it lets them, and give nothing back.

Plain data, as everything in plan.py. Not here: what a flooder does (kafka/flooder.py), and how it is drawn
(drawn_floods.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FloodKind(StrEnum):
    """The way in which a flooder floods."""

    ANNOUNCE = "it announces frames, and sends their first bytes alone"
    DRIP = "its frames come more slowly than a frame may"
    PACE = "its frames come just as fast as a frame must"
    HOLD = "its frames come at once but for their ends, and these as late as they may"
    RUSH = "its frames come as fast as the network carries them"
    DEAF = "it asks for large answers, and reads none"
    ELEMENTS = "its requests are short names, as many as a frame holds"


class FloodOrigin(StrEnum):
    """The addresses of its connections."""

    ONE = "one address"
    MANY = "an address for each"
    ONE_64 = "an address for each, all of one /64 of IPv6"


@dataclass(frozen=True, slots=True)
class FloodPlan:
    """One party, with so many connections at a time to the listeners KAFKA of all brokers. On a secured cluster it is a
    stranger, or, if it `logs_in`, a tenant with no rights."""

    kind: FloodKind
    origin: FloodOrigin
    connections: int
    frame_bytes: int
    logs_in: bool = False
