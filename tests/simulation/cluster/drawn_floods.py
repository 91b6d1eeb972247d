"""Draws whether a cluster is flooded, by whom, and how much memory its brokers have for that.

From a randomness of their own, so the rest of the plan stays as it is, but for its faults: half of the floods meet a
cluster without any, where nothing else explains an ack that comes late (I88). The brokers have little memory, or few
clients could not fill it. What a flooder is like is in flood_plan.py.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from tests.simulation.cluster.flood_plan import FloodKind, FloodOrigin, FloodPlan
from tests.simulation.cluster.plan import Plan

FLOOD_SHARE, CALM_SHARE, LOG_IN_SHARE = 0.1, 0.5, 0.6
"""So many of the plans have flooders; of these so many no fault, and on a secured cluster so many flooders log in."""
ALIKE_SHARE = 0.6
"""In so many of these all do the same, and in so many all have frames of one size: several parties at it do most."""
CONNECTIONS = (2, 6, 12)
FRAME_BYTES = (30_000, 30_000, 60_000, 100_000, 300_000, 1_000_000)
REQUEST_BYTES, RESPONSE_BYTES = (1_310_720, 4_194_304), 8_388_608
STALL_MS = (2_000, 5_000, 30_000)


def flooded_config(request_bytes: int, stall_ms: int) -> dict[str, object]:
    """Brokers with so much memory for requests."""
    return {
        "socket.request.max.bytes": REQUEST_BYTES[0],
        "queued.max.request.bytes": request_bytes,
        "queued.max.response.bytes": RESPONSE_BYTES,
        "connections.max.write.stall.ms": stall_ms,
    }


def with_floods(plan: Plan) -> Plan:
    draw = random.Random(f"floods {plan.seed}")
    if draw.random() >= FLOOD_SHARE:
        return plan
    kinds = list(FloodKind) if draw.random() >= ALIKE_SHARE else [draw.choice(list(FloodKind))]
    frame_bytes = FRAME_BYTES if draw.random() >= ALIKE_SHARE else (draw.choice(FRAME_BYTES),)
    floods = tuple(_draw_flood(draw, kinds, frame_bytes) for _ in range(draw.choice((1, 3, 5))))
    config = {**plan.config, **flooded_config(draw.choice(REQUEST_BYTES), draw.choice(STALL_MS))}
    faults = () if draw.random() < CALM_SHARE else plan.faults
    return replace(plan, floods=floods, config=config, faults=faults)


def _draw_flood(draw: random.Random, kinds: Sequence[FloodKind], frame_bytes: Sequence[int]) -> FloodPlan:
    kind, origin = draw.choice(kinds), draw.choice(list(FloodOrigin))
    return FloodPlan(kind, origin, draw.choice(CONNECTIONS), draw.choice(frame_bytes), draw.random() < LOG_IN_SHARE)
