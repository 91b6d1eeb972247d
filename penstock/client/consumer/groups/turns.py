"""The user's side of a group: inside a poll, changes are made and callbacks are called, in the user's thread.

A callback is called once for a change. If it raises, the change is made all the same, and the poll raises what it
raised. Whatever interrupts a poll (Ctrl-C), the next one goes on where it was. The callbacks are kept here, which only
the consumer itself holds: they may refer to it, and it is still forgotten when its user drops it. Not here: which
change is next (joined_group.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from penstock.client.consumer.consumer_core import ConsumerCore
from penstock.client.consumer.groups.joined_group import JoinedGroup
from penstock.client.consumer.groups.steps import RebalanceListener, RebalanceStep
from penstock.client.consumer.groups.subscription import Mode
from penstock.errors import CalledInCallbackError

Run = Callable[..., Any]
"""Runs a coroutine function on the loop, and waits for its result."""


class Turns:
    """The turns of one consumer; nothing where it has no group."""

    def __init__(self, core: ConsumerCore) -> None:
        self._core = core
        self.listener = RebalanceListener()
        self.in_callback = False

    @contextmanager
    def listening(self, listener: RebalanceListener, *, takes_coroutines: bool) -> Iterator[None]:
        """The callbacks of a `subscribe`, which is made meanwhile; one that is refused changes none. After Ctrl-C the
        subscription may be the new one, and so are the callbacks."""
        for name in RebalanceListener.__dataclass_fields__:
            if not takes_coroutines and inspect.iscoroutinefunction(getattr(listener, name)):
                raise TypeError(f"{name} is a coroutine function, which only AsyncConsumer takes")
        before, self.listener = self.listener, listener
        try:
            yield
        except Exception:
            self.listener = before
            raise

    # -- polls ---------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A poll begins: the user is done with what earlier ones gave."""
        group = self._core.group
        if group is None:
            return
        self.must_not_be_in_callback("poll")
        self._note_poll(group)
        group.heartbeats.in_poll = True

    def end(self) -> None:
        """The poll ends, whatever it met."""
        group = self._core.group
        if group is not None:
            group.heartbeats.polled_ms = self._core.clock.now_ms()
            group.heartbeats.in_poll = False

    def may_take(self) -> bool:
        """An iteration takes a record; False where a poll is to make a change, or to call back, before."""
        group = self._core.group
        if group is None:
            return True
        self.must_not_be_in_callback("an iteration")
        self._note_poll(group)
        return not (group.wants_user or group.finished)

    def _note_poll(self, group: JoinedGroup) -> None:
        now_ms = self._core.clock.now_ms()
        group.heartbeats.polled_ms = now_ms
        if group.auto_commit.is_due(now_ms) and group.mode is not Mode.NONE:
            changed = group.auto_commit.changed(self._core.positions.states.values())
            if changed:
                self._core.call_soon(group.commit_soon, changed)

    def must_not_be_in_callback(self, what: str) -> None:
        if self.in_callback:
            raise CalledInCallbackError(f"{what} was called in a callback of a rebalance, which a poll makes: return")

    # -- changes -------------------------------------------------------------------------------------------------------

    def take(self, run: Run) -> bool:
        """Makes the changes that are due, in a plain consumer's thread; False if no change was due."""
        group, has_changed = self._core.group, False
        while group is not None and group.wants_user:
            step = run(group.next_step)
            if step is None:
                break
            has_changed = True
            try:
                if (callback := self._due(step)) is not None:
                    self._call(group, callback, list(step.partitions))
            finally:
                run(group.end, step)
        while group is not None and group.finished:
            callback, offsets, error = group.finished.popleft()
            self._call(group, callback, offsets, error)
        return has_changed

    async def take_async(self) -> bool:
        """Does what `take` does, on the loop of an async consumer, whose callbacks may be coroutine functions."""
        group, has_changed = self._core.group, False
        while group is not None and group.wants_user:
            step = await group.next_step()
            if step is None:
                break
            has_changed = True
            try:
                if (callback := self._due(step)) is not None:
                    await self._call_async(group, callback, list(step.partitions))
            finally:
                await group.end(step)
        while group is not None and group.finished:
            callback, offsets, error = group.finished.popleft()
            await self._call_async(group, callback, offsets, error)
        return has_changed

    def _call(self, group: JoinedGroup, callback: Callable[..., Any], *args: Any) -> None:
        """Calls the user's callback. Its time counts as time without a poll."""
        was_in_poll = group.heartbeats.in_poll
        try:
            self._begin_call(group)  # within: whatever interrupts it, the call is over
            callback(*args)
        finally:
            self.in_callback = False
            group.heartbeats.in_poll = was_in_poll

    async def _call_async(self, group: JoinedGroup, callback: Callable[..., Any], *args: Any) -> None:
        was_in_poll = group.heartbeats.in_poll
        try:
            self._begin_call(group)
            result = callback(*args)
            if inspect.isawaitable(result):
                await result
        finally:
            self.in_callback = False
            group.heartbeats.in_poll = was_in_poll

    def _begin_call(self, group: JoinedGroup) -> None:
        self.in_callback = True
        group.heartbeats.polled_ms = self._core.clock.now_ms()
        group.heartbeats.in_poll = False

    def _due(self, step: RebalanceStep) -> Callable[..., Any] | None:
        if step.called:
            return None
        step.called = True
        return self.listener.of(step.kind)

    # -- end -----------------------------------------------------------------------------------------------------------

    def leave(self, run: Run, *, is_last_done: bool) -> None:
        """Revokes what is assigned, and leaves the group, in a plain consumer's thread."""
        group = self._core.group
        if group is None or self.in_callback:
            return
        run(group.begin_leaving, is_last_done=is_last_done)
        self.take(run)
        run(group.leave)

    async def leave_async(self, *, is_last_done: bool) -> None:
        """Revokes what is assigned, and leaves the group, on the loop of an async consumer."""
        group = self._core.group
        if group is None or self.in_callback:
            return
        await group.begin_leaving(is_last_done=is_last_done)
        await self.take_async()
        await group.leave()

    def __repr__(self) -> str:
        return f"Turns({self.listener!r})"
