"""Draws whether the voters of the quorum change: from a randomness of its own, so the rest of the plan stays as it is.

Such a plan has more controllers than it had before, up to five: brokers get the role too, or new nodes have that alone,
behind the others, and some of the faults meet those. No fault damages a metadata log or puts an older one back: a voter
that lost what it promised does not start again as that voter, and the only way on is another disk. That way is drawn:
LOSE_DIR and REPLACE_DISK (disk_faults.py). Secured and flooded clusters have stories of their own, and so have those
with wrong calendars.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.simulation.cluster.plan import Fault, Kind, NodePlan, Plan
from tests.simulation.cluster.voters.voter_plan import VoterPlan

VOTERS_SHARE, STATIC_SHARE, ON_NEW_SHARE = 0.15, 0.4, 0.3
"""So many of the plans without another such story, some tenth of all; of these so many begin static; so many of the
faults meet new nodes, where there are any."""
CONTROLLERS = (3, 3, 4, 5)
DROPPED = frozenset({Kind.SWAP_DIRS, Kind.TEAR_METADATA, Kind.RESTORE_COPY, Kind.LOSE_IN_CUT})
"""They damage, lose or exchange a metadata log without a way back."""


def with_voters(plan: Plan, share: float = VOTERS_SHARE) -> Plan:
    draw = random.Random(f"voters {plan.seed}")
    is_another_story = plan.security is not None or bool(plan.floods) or plan.calendars is not None
    if plan.voter_changes is not None or draw.random() >= share or (is_another_story and share < 1.0):
        return plan
    nodes = _draw_controllers(draw, plan)
    controllers = [index for index, node in enumerate(nodes) if node.is_voter]
    is_static, first = draw.random() < STATIC_SHARE, draw.sample(controllers, draw.choice((1, 3)))
    changes = VoterPlan(
        () if is_static else tuple(sorted(first)),
        draw.choice((0.5, 1.5, 4.0)),
        draw.uniform(0.0, plan.seconds / 3),
        draw.choice((1, 1, 1, 2)),
        replaces=bool(plan.faults),
    )
    faults = tuple(fault for fault in plan.faults if fault.kind not in DROPPED)
    return replace(
        plan,
        nodes=nodes,
        faults=_on_new_nodes(draw, faults, range(len(plan.nodes), len(nodes))),
        voter_changes=changes,
        security=None,
        floods=(),
        calendars=None,
    )


def _draw_controllers(draw: random.Random, plan: Plan) -> tuple[NodePlan, ...]:
    nodes, wanted = list(plan.nodes), draw.choice(CONTROLLERS)
    has_both = any(node.is_broker and node.is_voter for node in nodes)
    while sum(node.is_voter for node in nodes) < wanted:
        brokers = [index for index, node in enumerate(nodes) if not node.is_voter]
        if brokers and has_both:
            nodes[brokers[0]] = replace(nodes[brokers[0]], is_voter=True)
        else:
            nodes.append(NodePlan(is_broker=False, is_voter=True, log_dirs=1, clock_rate=1.0))
    return tuple(nodes)


def _on_new_nodes(draw: random.Random, faults: tuple[Fault, ...], new: range) -> tuple[Fault, ...]:
    if not new:
        return faults
    return tuple(replace(each, target=draw.choice(new)) if draw.random() < ON_NEW_SHARE else each for each in faults)
