"""One flood as a process of its own: python -m tests.attack.floods.flooder JSON.

It says `ready`, waits for a line, floods for so many seconds, prints what the flood came to as JSON, and ends when
stdin does. It is niced and rests in between, so that it takes no more than a share of one core: a flood is about bytes
and connections, and a node that is slow because two cores are busy would say nothing.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import sys
import time

from tests.attack.floods import sink
from tests.attack.floods.herd import FAILED
from tests.attack.floods.links import Target
from tests.attack.floods.table import FLOODS

NICE = 10
STEP_S = 0.005


class Pace:
    """Sleeps as long as it takes that the process has no more than its share of a core."""

    def __init__(self, share: float) -> None:
        self._share, self._began, self._cpu = share, time.monotonic(), time.process_time()

    @property
    def spent(self) -> float:
        """The share of one core that was used so far."""
        return (time.process_time() - self._cpu) / max(time.monotonic() - self._began, STEP_S)

    def rest(self, wait_s: float, until: float) -> None:
        due = self._began + (time.process_time() - self._cpu) / self._share
        pause = max(wait_s, due - time.monotonic())
        if pause > STEP_S or wait_s:
            time.sleep(min(pause, max(until - time.monotonic(), 0)))


def main(given: str) -> None:
    """One flood, or the same work against nobody."""
    logging.disable(logging.CRITICAL)
    order = json.loads(given)
    os.nice(NICE)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    target = Target(**{**order["target"], "sources": tuple(order["target"]["sources"])})
    work = sink.against_nobody() if order["flood"] == sink.NAME else FLOODS[order["flood"]](target)
    print("ready", flush=True)
    if not sys.stdin.readline():
        return
    pace, until = Pace(order["share"]), time.monotonic() + order["seconds"]
    while time.monotonic() < until:
        try:
            wait_s = next(work)
        except StopIteration:
            break
        except FAILED as error:
            target.figures["ended"] = 1
            print(f"{order['flood']}: {error!r}", file=sys.stderr)
            break
        pace.rest(wait_s, until)
    print(json.dumps({**target.figures, "core": round(pace.spent, 3)}), flush=True)
    sys.stdin.read()  # what the node has left of its connections is looked at before they end


if __name__ == "__main__":
    main(sys.argv[1])
