"""The threads of one log dir for its flushes, and the question whether its disk answers.

A flush is short, and some of them may run at once. Work that waits for the disk on the event loop is begun only when a
sync has just returned: if the disk hangs, the loop goes on. Work that may take long has a thread of its own, so no
flush waits for it. Used on the loop. Not here: which log is flushed, and what an error means
(`storage/log/group_commit.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.threads import Threads
from storage.disk.dir_threads import DirThreads, OnDone


class FlushThreads:
    """Made for one log dir when it is first flushed."""

    def __init__(self, threads: Threads, threads_max: int) -> None:
        self.flushes = DirThreads(threads, "flush", threads_max)
        self._long_work = DirThreads(threads, "cut", 1)
        self._asked = 0

    @property
    def is_asked(self) -> bool:
        """True while an answer of the disk, or work that follows it, is under way."""
        return self._asked > 0

    def ask(
        self,
        sync: Callable[[], object],
        answered: OnDone,
        then: OnDone,
        work: Callable[[], object] | None,
    ) -> None:
        """Runs `sync` in a thread, then `answered` on the loop with its error, or None. After an error `then` has it,
        too; else `work` is done in another thread first. `then` is called in any case."""

        def on_answer(error: BaseException | None) -> None:
            self._asked -= 1
            answered(error)  # BEFORE `then`: the caller may not need the answer any more
            if error is None and work is not None:
                self._run(self._long_work, work, on_worked)
            else:
                then(error)

        def on_worked(error: BaseException | None) -> None:
            self._asked -= 1
            then(error)

        self._run(self.flushes, sync, on_answer)

    def _run(self, threads: DirThreads, work: Callable[[], object], done: OnDone) -> None:
        self._asked += 1
        try:
            threads.run(work, done)
        except (OSError, MemoryError) as error:
            asyncio.get_running_loop().call_soon(done, error)

    def close(self, *, wait: bool) -> None:
        self.flushes.close(wait=wait)
        self._long_work.close(wait=wait)

    def __repr__(self) -> str:
        return f"FlushThreads({self.flushes!r}, {self._asked} asked)"
