"""How long the quorum decides nothing when its leader is killed: python -m tests.failover.quorum --times 20.

Three controllers that are brokers too, and creators of topics that never pause. Each round kills the active controller
with SIGKILL, waits for the first topic whose creation began afterwards, and starts the node again. Then two of three
nodes are killed: every call has to end by its time-out with a typed error; and the cluster must heal. In the end every
acknowledged topic must be in the metadata log of every node, with its id, and the images must be equal.

It is wrong when anything is missing, when a call takes longer than its time-out, or when one ends with another error.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from broker.quorum.metadata_loader import MetadataLoader
from metadata.image import MetadataImage
from penstock import Admin
from penstock.errors import PenstockError
from penstock.record.batch import iter_headers
from penstock.testing import Cluster
from tests.support.campaign.beside import beside
from tests.support.campaign.frame import Campaign, Run
from tests.support.campaign.options import option

NODES, CREATORS = 3, 2
CALL_TIMEOUT_S, SLACK_S = 10.0, 1.0
ROUND_TIMEOUT_S = 60.0
POLL_S = 0.01
PAUSE_S = 0.2
"""The pause of a creator between two topics: the load is steady, and the quorum is what is measured."""


@dataclass(frozen=True, slots=True)
class Options:
    times: int = option(20, "rounds")


@dataclass(slots=True)
class Creators:
    """Threads that create one topic after another; what they were told."""

    bootstrap: str
    acked: dict[str, tuple[str, float, float]] = field(default_factory=dict)
    """Topic → its id, when its creation began, and when it was acknowledged."""
    failed: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    bugs: list[str] = field(default_factory=list)

    def work(self, number: int, is_over: threading.Event) -> None:
        with Admin(self.bootstrap, default_api_timeout_ms=int(CALL_TIMEOUT_S * 1000)) as admin:
            count = 0
            while not is_over.is_set():
                count += 1
                self._create(admin, f"topic-{number}-{count}", 1 + count % NODES)
                is_over.wait(PAUSE_S)

    def _create(self, admin: Admin, name: str, replicas: int) -> None:
        began = time.monotonic()
        try:
            made = admin.create_topic(name, 1, replicas)
            self.acked[name] = made.topic_id, began, time.monotonic()
        except PenstockError as error:
            self.failed[type(error).__name__] += 1
        except Exception as error:
            self.bugs.append(f"{name}: {error!r}")
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)

    def first_begun_after(self, moment: float) -> float | None:
        """When the first topic was acknowledged whose creation began after that."""
        return min((at for _, began, at in tuple(self.acked.values()) if began > moment), default=None)


def play(run: Run[Options]) -> None:
    gaps: list[float] = []
    cluster = run.cluster(NODES)
    creators = Creators(cluster.bootstrap)
    with beside(*(partial(creators.work, number) for number in range(CREATORS))):
        for number in range(run.options.times):
            gaps.append(_round(cluster, creators))
            run.say(f"{number}: {gaps[-1] * 1000:.0f} ms, {len(creators.acked)} topics")
    found = _without_quorum(cluster, run.say)
    cluster.stop_all()
    images = _images([cluster.directory(index) for index in range(NODES)])
    _judge(run, creators, images)
    p50_ms, max_ms = p50_and_max_ms(gaps)
    run.report.figures |= {
        "times": run.options.times,
        "p50_ms": p50_ms,
        "max_ms": max_ms,
        "created": len(creators.acked),
        "failed": dict(creators.failed),
        "slowest_call_s": round(creators.slowest_s, 2),
        "without_quorum": found,
    }


def _judge(run: Run[Options], creators: Creators, images: Sequence[MetadataImage]) -> None:
    for name, (topic_id, _, _) in creators.acked.items():
        for index, image in enumerate(images):
            if (topic := image.topic(name)) is None or topic.topic_id != topic_id:
                run.report.wrong("missing", f"{name} on node {index}")
    if len(digests := {image.digest()[:16] for image in images}) != 1:
        run.report.wrong("different-images", str(digests))
    if creators.slowest_s > CALL_TIMEOUT_S + SLACK_S:
        run.report.wrong("slow", f"a call took {creators.slowest_s:.1f} s")
    run.report.all_wrong("bug", creators.bugs)


def p50_and_max_ms(gaps_s: Sequence[float]) -> tuple[int | None, int | None]:
    """None and None where there are none: `--times 0` only takes the quorum away."""
    if not gaps_s:
        return None, None
    return round(statistics.median(gaps_s) * 1000), round(max(gaps_s) * 1000)


def _round(cluster: Cluster, creators: Creators) -> float:
    """Seconds from the kill to the first decision after it."""
    leader = cluster.controller()
    killed = time.monotonic()
    cluster.kill(leader)
    while (decided := creators.first_begun_after(killed)) is None:
        if time.monotonic() - killed > ROUND_TIMEOUT_S:
            raise AssertionError(f"no topic was created for {ROUND_TIMEOUT_S:.0f} s: {dict(creators.failed)}")
        time.sleep(POLL_S)
    cluster.start(leader)
    return decided - killed


def _without_quorum(cluster: Cluster, say: Callable[[str], None]) -> list[str]:
    """Kills two of three; what calls then say, and after how long. Then all is well again."""
    leader = cluster.controller()
    lost = (leader, (leader + 1) % NODES)
    for index in lost:
        cluster.kill(index)
    errors: list[str] = []
    with Admin(cluster.bootstrap, default_api_timeout_ms=int(CALL_TIMEOUT_S * 1000)) as admin:
        for name, call in (
            ("create", lambda: admin.create_topic("none")),
            ("delete", lambda: admin.delete_topic("topic-0-1")),
            ("alter", lambda: admin.alter_topic_config("topic-0-1", {"retention.ms": 1})),
        ):
            began = time.monotonic()
            try:
                call()
                raise AssertionError(f"{name}: done without a quorum")
            except PenstockError as error:
                took_s = time.monotonic() - began
                errors.append(f"{name}: {type(error).__name__} after {took_s:.1f} s")
                if took_s > CALL_TIMEOUT_S + SLACK_S:
                    raise AssertionError(errors[-1]) from error
            say(errors[-1])
        for index in lost:
            cluster.start(index)
        cluster.wait_ready()
        admin.create_topic("healed", 1, NODES)
    return errors


def _images(directories: list[Path]) -> list[MetadataImage]:
    """The image of each node as its metadata log makes it, up to the last offset that all have."""
    logs = [
        b"".join(path.read_bytes() for path in sorted(directory.glob("**/__cluster_metadata-0/*.log")))
        for directory in directories
    ]
    last = min(max(header.last_offset for _, header in iter_headers(log)) for log in logs)
    images: list[MetadataImage] = []
    for log in logs:
        loader = MetadataLoader()
        for position, header in iter_headers(log):
            if header.last_offset <= last:
                loader.on_committed(header.base_offset, log[position : position + header.size_bytes])
        images.append(loader.image)
    return images


CAMPAIGN = Campaign("tests.failover.quorum", __doc__, Options, play)

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
