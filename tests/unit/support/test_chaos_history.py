"""The evidence of a chaos run: what its clients log is in the history, and a reader that waits tells where."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

from tests.chaos.history import History
from tests.chaos.readers import waits_at
from tests.support.virtual_time import run_virtual


def test_the_history_has_what_the_clients_log_while_it_is_open(tmp_path: Path) -> None:
    log = logging.getLogger("penstock.client.consumer.fetching.fetcher")
    with History(tmp_path / "history.jsonl") as history:
        log.debug("node %d is silent", 1)
        history.write("fault", kind="kill")
    log.debug("nobody reads this")
    logged, fault = map(json.loads, (tmp_path / "history.jsonl").read_text().splitlines())
    assert (logged["what"], logged["level"], logged["text"]) == ("log", "DEBUG", "node 1 is silent")
    assert (fault["what"], fault["kind"]) == ("fault", "kill")


def test_a_task_that_waits_tells_the_innermost_line() -> None:
    async def inner() -> None:
        await asyncio.Event().wait()

    async def outer() -> None:
        await inner()

    async def main() -> None:
        task = asyncio.ensure_future(outer())
        await asyncio.sleep(0)
        assert waits_at(task).startswith("locks.py:") and waits_at(task).endswith(" wait")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert waits_at(task) == waits_at(None) == "nothing"

    run_virtual(main())
