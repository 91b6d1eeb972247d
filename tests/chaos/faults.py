"""The faults of a chaos run: a list that follows from the seed alone.

Pure. Performing them is operator.py's. Never more copies are damaged than the promise covers: a directory is lost on
one node at a time, while the others stand in every ISR, and never the directory of the metadata log, because a voter
that has lost it must not come back under its id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

NODES = 3
LOG_DIRS = 3
"""A node's; the first has the metadata log."""
CALM_S_MAX = 1.0
"""Before a fault, so that it meets the load anywhere."""
DOWN_S_MAX = 4.0
DISK_HANG_S_MAX = 9.0
HANG_S_MAX = 8.0
"""The session of a test's cluster is 2 s, its quorum's fetch time-out 1.5 s: most hangs are longer, some are not."""
FULL_S_MAX = 6.0
START_AT_ONCE = 0.25
TWO_NODES, THREE_NODES = 0.15, 0.1
THREE_LOSE_POWER = 0.3
"""The three machines of a cluster often have one supply."""
RECREATE_ALONE = 0.4
PATIENT = 0.6


class Kind(StrEnum):
    """A kind of fault, by its name on the command line."""

    KILL = "kill"
    """kill -9 of one to three nodes, and a start."""
    STOP = "stop"
    """SIGTERM to one to three nodes, and a start."""
    POWER_CUT = "power-cut"
    """The machines of one to three nodes lose their power, and what their disks had not synced; some once more while
    they start. Only where this user may mount disks."""
    HANG = "hang"
    """SIGSTOP to one or two nodes, and SIGCONT."""
    HANG_DISK = "hang-disk"
    """The disk of one log dir answers no sync for a while. After a long one the dir has failed, and its node is
    stopped and started."""
    WIPE = "wipe"
    """A log dir of a stopped node is a new, empty one; refused until it is formatted and the old one is given up."""
    WIPE_LAST = "wipe-last"
    """The same on the node that stopped last, which is the whole ISR: refused, until it has its old dir again."""
    SWAP = "swap"
    """Two stopped nodes find each other's directories; both starts are refused; they get back their own."""
    FULL = "full"
    """The disk of one log dir is full for a while; only where this user may mount one."""
    RECREATE = "recreate"
    """A topic is deleted under load, and made anew with its name; often while a node hangs or is killed."""


ENDING = (Kind.KILL, Kind.STOP, Kind.POWER_CUT)
DAMAGING = (Kind.WIPE, Kind.WIPE_LAST, Kind.SWAP)


@dataclass(frozen=True, slots=True)
class Fault:
    """One of them. `patient`: the next one waits until every ISR is whole again."""

    kind: Kind
    nodes: tuple[int, ...]
    calm_s: float
    lasts_s: float
    log_dir: int
    by_kill: bool
    patient: bool

    def __str__(self) -> str:
        words = [str(self.kind)]
        if self.nodes:
            words.append(f"node {','.join(map(str, self.nodes))}")
        if self.kind in (*DAMAGING, Kind.HANG_DISK):
            words.append(f"dir {self.log_dir}")
        if self.kind in (*DAMAGING, Kind.RECREATE) and self.nodes:
            words.append("by kill -9" if self.by_kill else "hanging" if self.kind is Kind.RECREATE else "in order")
        if self.kind is Kind.POWER_CUT and self.by_kill:
            words.append("and again")
        return " ".join([*words, f"for {self.lasts_s:.1f} s"])


def plan(seed: int, kinds: Sequence[Kind]) -> Iterator[Fault]:
    """An endless list; the first is of the kind that the seed chooses, so a range of seeds has each kind early."""
    source = Random(seed)
    kinds = sorted(kinds)
    kind = kinds[seed % len(kinds)]
    while True:
        yield _draw(source, kind)
        kind = source.choice(kinds)


def _draw(source: Random, kind: Kind) -> Fault:
    """Takes the same number of draws whatever comes out, so that plans of one seed resemble each other."""
    order = source.sample(range(NODES), NODES)
    share, at_once, length = source.random(), source.random(), source.random()
    calm, patience, log_dir, by_kill = source.random(), source.random(), source.randrange(1, LOG_DIRS), source.random()
    longest = {Kind.HANG: HANG_S_MAX, Kind.HANG_DISK: DISK_HANG_S_MAX, Kind.FULL: FULL_S_MAX}.get(kind, DOWN_S_MAX)
    is_down = kind in ENDING
    return Fault(
        kind=kind,
        nodes=tuple(order[: _nodes_hit(kind, share)]),
        calm_s=calm * CALM_S_MAX,
        lasts_s=0.0 if is_down and at_once < START_AT_ONCE else length * longest,
        log_dir=log_dir,
        by_kill=by_kill < 0.5,
        patient=patience < PATIENT,
    )


def _nodes_hit(kind: Kind, share: float) -> int:
    if kind is Kind.WIPE_LAST:
        return NODES
    if kind is Kind.SWAP:
        return 2
    if kind is Kind.RECREATE:
        return int(share > RECREATE_ALONE)
    three = THREE_LOSE_POWER if kind is Kind.POWER_CUT else THREE_NODES
    if kind in ENDING and share < three:
        return 3
    return 2 if kind in (*ENDING, Kind.HANG) and share < three + TWO_NODES else 1
