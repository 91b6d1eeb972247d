"""Work of a shard that no request asks for, each piece in a turn of the event loop of its own: after a load, and when
topics have changed. While the shard cannot take a step it is kept. Not here: what a step does (the core).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from broker.coordination.turn import Turn

HELD_MS: Final = 500
"""The pause between two looks at the steps that wait while the log may not be written."""
Step = Callable[[Turn], None]


class ShardSteps:
    """The steps of one shard, in order."""

    def __init__(
        self, is_serving: Callable[[], bool], may_write: Callable[[], bool], take: Callable[[Step], None]
    ) -> None:
        self._is_serving, self._may_write, self._take = is_serving, may_write, take
        self._steps: deque[Step] = deque()

    def add(self, step: Step) -> None:
        """Adds a step after those that wait."""
        self._steps.append(step)
        if len(self._steps) == 1 and self._is_serving():
            asyncio.get_running_loop().call_soon(self.go_on)

    def add_first(self, steps: Sequence[Step]) -> None:
        """Adds steps before those that wait; `go_on` must follow."""
        self._steps.extendleft(reversed(steps))

    def go_on(self) -> None:
        """The next step, if the shard serves; the others follow by themselves."""
        if not self._steps or not self._is_serving():
            return
        loop = asyncio.get_running_loop()
        if not self._may_write():
            loop.call_later(HELD_MS / 1000, self.go_on)
            return
        self._take(self._steps.popleft())
        if self._steps:
            loop.call_soon(self.go_on)

    def clear(self) -> None:
        self._steps.clear()

    def __repr__(self) -> str:
        return f"ShardSteps({len(self._steps)})"
