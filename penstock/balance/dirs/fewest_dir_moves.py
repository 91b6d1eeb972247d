"""Looks for fewer moves that even the log dirs of a broker, and for any where step by step none is found.

A search in depth, for each number of moves: as long as a log dir has too much, one of its replicas must leave it; as
long as one has too little, a replica must come. With few replicas it looks at everything, so no plan has
fewer moves than what it returns. With many it gives up after STATES_MAX states. A replica moves once.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.balance.dirs.dir_layout import DirLayout

SEARCHED_REPLICAS_MAX = 100
SEARCHED_MOVES_MAX = 8
STATES_MAX = 10_000
"""Limit for one search: more than the 3^8 states of eight replicas in three log dirs; a second at most."""

_Moves = tuple[tuple[int, int], ...]


def fewest_dir_moves(layout: DirLayout, fewer_than: int) -> bool:
    """Makes the moves that even the dirs, if fewer than `fewer_than` moves do: the fewest, and of these the most even
    that it saw. The replicas must be at home. If no such moves are found, they stay there."""
    if len(layout.weights) > SEARCHED_REPLICAS_MAX:
        return False
    search = _Search(layout)
    for depth in range(search.least_moves(), min(fewer_than - 1, SEARCHED_MOVES_MAX) + 1):
        found = search.with_moves(depth)
        if found is not None:
            for replica, target in found:
                layout.move(replica, target)
            return True
        if search.states_left <= 0:
            return False
    return False


class _Search:
    def __init__(self, layout: DirLayout) -> None:
        self._layout = layout
        self.states_left = STATES_MAX
        self._seen: set[frozenset[tuple[int, int]]] = set()
        self._best: tuple[int, _Moves] | None = None
        self._largest = [0] * len(layout.paths)
        """The weight of the largest replica of each log dir that may leave it."""
        for replica, home in enumerate(layout.homes):
            self._largest[home] = max(self._largest[home], layout.weights[replica])

    def least_moves(self) -> int:
        """The least number of moves needed from here; more than are ever looked for if no moves help."""
        layout, out, into = self._layout, 0, 0
        for load, largest in zip(layout.loads, self._largest, strict=True):
            if load > layout.high:
                out += -(-(load - layout.high) // largest) if largest else SEARCHED_MOVES_MAX + 1
            elif load < layout.low:
                into += -(-(layout.low - load) // (max(self._largest) or 1))
        return max(out, into)

    def with_moves(self, count: int) -> _Moves | None:
        """The moves that even the dirs, `count` of them; None if that many do not do it, or the search was given up."""
        self._seen.clear()
        self._best = None
        self._look((), count)
        return None if self._best is None else self._best[1]

    def _look(self, done: _Moves, left: int) -> None:
        self.states_left -= 1
        if self._layout.is_even:
            squares = self._layout.squares
            if self._best is None or squares < self._best[0]:
                self._best = squares, done
            return
        if self.least_moves() > left:
            return
        for replica, target in self._ways():
            moves = (*done, (replica, target))
            key = frozenset(moves)
            if key in self._seen:
                continue
            if self.states_left <= 0:
                return
            self._seen.add(key)
            self._layout.move(replica, target)
            self._look(moves, left - 1)
            self._layout.move(replica, self._layout.homes[replica])

    def _ways(self) -> Iterator[tuple[int, int]]:
        """The moves of which one at least is needed now: out of the log dir that has far too much, or into the one that
        has far too little. Replicas of a log dir that count alike are one choice."""
        layout = self._layout
        over = [load - layout.high if load > layout.high else layout.low - load for load in layout.loads]
        worst = max(range(len(over)), key=lambda log_dir: (over[log_dir], -log_dir))
        is_heavy = layout.loads[worst] > layout.high
        tried: set[tuple[int, int]] = set()
        for replica, home in enumerate(layout.homes):
            kind = layout.weights[replica], home
            if layout.at[replica] != home or (home == worst) != is_heavy or kind in tried:
                continue
            tried.add(kind)
            targets = (d for d in range(len(over)) if d != worst) if is_heavy else (worst,)
            for target in targets:
                if layout.fits(replica, target):
                    yield replica, target
