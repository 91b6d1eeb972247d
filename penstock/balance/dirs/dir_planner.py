"""Plans the fewest moves that even the log dirs of each broker: their bytes, or their counts where all count alike.

Each broker is planned by itself, from what is there: replicas that go between brokers are to be there before. What is
even is said in dir_layout.py. Nothing goes to a log dir that is offline or has no room, and nothing moves that moves
already. Where the dirs cannot be even, each move makes them more even. A plan is decided by the state alone, and the
state after a plan gives an empty one, as long as room is no limit. Pure. Not here: how a plan is performed
(penstock/cli/moves/).
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.balance.dirs.broker_dirs import BrokerDirs, DirMove, DirPlan, dir_loads
from penstock.balance.dirs.dir_layout import DirLayout
from penstock.balance.dirs.even_dirs import even_dirs, take_back_needless
from penstock.balance.dirs.fewest_dir_moves import SEARCHED_MOVES_MAX, fewest_dir_moves

DIR_ROUNDS_MAX = 20
"""Each round leaves the dirs more even than the one before."""


def make_dir_plan(brokers: Iterable[BrokerDirs]) -> DirPlan:
    """The moves by broker; of each, to one log dir after the other, the largest replicas first."""
    known = sorted(brokers, key=lambda broker: broker.broker_id)
    moves = tuple(move for broker in known for move in _moves_of(broker))
    return DirPlan(moves, dir_loads(known), dir_loads(known, moves))


def _moves_of(broker: BrokerDirs) -> list[DirMove]:
    layout = DirLayout(broker)
    if len(layout.paths) < 2:
        return []
    homes = list(layout.homes)
    for _ in range(DIR_ROUNDS_MAX):
        before = list(layout.at)
        layout.homes = before
        _improve(layout)
        layout.homes = homes
        take_back_needless(layout)
        if layout.is_even or layout.at == before:
            break
    return layout.moves_from(homes)


def _improve(layout: DirLayout) -> None:
    """Step by step; then by fewer moves, if there are any, or by others, if these did not make the dirs even."""
    even_dirs(layout)
    planned = [(replica, layout.at[replica]) for replica in layout.moved]
    fewer_than = len(planned) if layout.is_even else SEARCHED_MOVES_MAX + 1
    for replica, _ in planned:
        layout.move(replica, layout.homes[replica])
    if not fewest_dir_moves(layout, fewer_than):
        for replica, target in planned:
            layout.move(replica, target)
