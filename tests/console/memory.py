"""Watches the memory of a console over several of its hours: `python -m tests.console.memory [--hours 5]`.

Three nodes have many topics and groups; a console watches them in a process of its own. Its hour is over in
`--hour-minutes`, so that all of its tables go round several times. Tabs ask for its pages, follow its streams, and
close again, one page after the other without a pause. Each answer is followed by some records that are written. The
process's resident memory is read SAMPLES times an hour, and each hour's level, the median, is printed.

Exit code 1 if the console ends, an answer is a bug (500) or none comes, the memory is ever above RSS_MAX, or the level
of the last hour is more than GROWTH_MAX above that of the hour before. Answers that the cluster was too slow for (503)
are counted and no failure.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import httpx

from penstock import Admin, AsyncProducer, TopicPartition
from penstock.admin import NewTopic
from penstock.console.app import create_app
from penstock.console.live import moving_routes
from penstock.console.serving import listen, serve_console
from penstock.console.settings import ConsoleSettings
from penstock.console.watching.cluster_watch import ClusterWatch
from penstock.console.watching.last_hour import HourLimits
from penstock.testing import Cluster

TOPICS, PARTITIONS, GROUPS = 200, 6, 100
AT_ONCE = 8
"""Tabs that ask at the same time: those of one person wait for 16 answers at most."""
RECORDS_AN_ANSWER = 20
RSS_MAX = 300 << 20
GROWTH_MAX = 0.03
SAMPLES = 12
STEPS = 720
PAGE_BYTES = 4096
PAGES = (
    *("/overview", "/brokers", "/topics", "/topic?name=t-7", "/records?topic=t-7", "/usage?topic=t-7", "/groups"),
    *("/group?id=g-7", "/quorum", "/moves", "/plan", "/pictures", "/series?subject=topic-records", "/flow", "/layout"),
    *("/events", "/layout?topic=t-7", "/topics?page=3", "/series.json?subject=group-lag", "/transactions"),
    *("/records?topic=t-7&from=oldest&value=nowhere", "/static/live.js", "/topic.json?name=t-7"),
)


@dataclass
class Use:
    """The use of a console so far."""

    until: float
    answers: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    sampled: list[int] = field(default_factory=list)
    """The resident memory, SAMPLES times an hour."""

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.until

    def levels(self) -> list[float]:
        """The median of each whole hour."""
        hours = range(0, len(self.sampled) - SAMPLES + 1, SAMPLES)
        return [statistics.median(self.sampled[hour : hour + SAMPLES]) for hour in hours]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.console.memory", description=__doc__)
    parser.add_argument("--hours", type=int, default=5, help="the console's own hours; two at least")
    parser.add_argument("--hour-minutes", type=float, default=3, help="the time in which such an hour is over")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--as-console", metavar="BOOTSTRAP", help=argparse.SUPPRESS)
    options = parser.parse_args()
    step_ms = round(options.hour_minutes * 60_000 / STEPS)
    if options.as_console:
        serve(options.as_console, step_ms)
        return
    sys.exit(asyncio.run(watched(options)))


def serve(bootstrap: str, step_ms: int) -> None:
    """Serves as `penstock console` does, with shorter steps, until it is terminated."""
    with listen("127.0.0.1", 0) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        settings = ConsoleSettings(bootstrap=bootstrap, origins=(url,))
        watch = ClusterWatch(settings, limits=HourLimits(step_ms=step_ms))
        app = create_app(settings, watch=watch, more=moving_routes)
        serve_console(app, listening, None, lambda: print(url, flush=True))


async def watched(options: argparse.Namespace) -> int:
    """The exit code."""
    hour_s = options.hour_minutes * 60
    with Cluster(nodes=3) as cluster:
        fill(cluster)
        with console_process(cluster.bootstrap, options.hour_minutes) as (process, url):
            use = Use(time.monotonic() + max(2, options.hours) * hour_s)
            async with AsyncProducer(cluster.bootstrap, client_id="load") as producer, asyncio.TaskGroup() as tabs:
                for n in range(AT_ONCE):
                    chance = random.Random(options.seed + n)
                    tabs.create_task(tab(url, chance, use, Load(producer, use), process))
                tabs.create_task(sample(process, use, hour_s / SAMPLES))
            has_ended = process.poll() is not None
    return verdict(use, has_ended=has_ended)


def verdict(use: Use, *, has_ended: bool) -> int:
    levels, most = use.levels(), max(use.sampled)
    growth = levels[-1] / levels[-2] - 1 if len(levels) > 1 else float("inf")
    print(
        f"{use.answers.total()} answers {dict(use.answers)}, {len(use.failures)} failed; at most"
        f" {most / 2**20:.1f} MiB; hours of {', '.join(f'{level / 2**20:.1f}' for level in levels)} MiB;"
        f" the last one {growth:+.1%} against the one before"
    )
    for failure in use.failures[:5]:
        print(f"  {failure}")
    is_well = not has_ended and not use.failures and most <= RSS_MAX and growth <= GROWTH_MAX
    print("result: the memory is bounded" if is_well else "result: NOT as it must be")
    return 0 if is_well else 1


def fill(cluster: Cluster) -> None:
    """Topics, records and groups."""
    with Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(f"t-{n}", PARTITIONS, 3) for n in range(TOPICS)])
        for n in range(GROUPS):
            admin.alter_group_offsets(f"g-{n}", {TopicPartition(f"t-{n}", p): 0 for p in range(PARTITIONS)})


class Load:
    """Some records to some topics with each answer."""

    def __init__(self, producer: AsyncProducer, use: Use) -> None:
        self._producer, self._use = producer, use

    async def write(self) -> None:
        number = self._use.answers.total() * RECORDS_AN_ANSWER
        for n in range(number, number + RECORDS_AN_ANSWER):
            await self._producer.send(f"t-{n % TOPICS}", b"%d " % n * 20, key=b"%d" % (n % 1_000))


@contextmanager
def console_process(bootstrap: str, hour_minutes: float) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A console in a process of its own, and its address."""
    words = ["-m", "tests.console.memory", "--as-console", bootstrap, "--hour-minutes", str(hour_minutes)]
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.terminate()
        try:
            process.wait(30)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def resident(pid: int) -> int:
    """The resident memory of a process."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * PAGE_BYTES


async def sample(process: subprocess.Popen[str], use: Use, every_s: float) -> None:
    """Reads the resident memory until the use is over."""
    while not use.is_over and process.poll() is None:
        await asyncio.sleep(every_s)
        with suppress(OSError):
            use.sampled.append(resident(process.pid))
        if len(use.sampled) % SAMPLES == 0 and use.sampled:
            hour = len(use.sampled) // SAMPLES
            print(f"hour {hour}: {use.levels()[-1] / 2**20:.1f} MiB, {dict(use.answers)}", flush=True)


async def tab(url: str, chance: random.Random, use: Use, load: Load, process: subprocess.Popen[str]) -> None:
    """One person after another: pages, beside a stream, and then the tab is closed."""
    while not use.is_over and process.poll() is None:
        async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client, asyncio.TaskGroup() as group:
            stream = group.create_task(follow(client, "/live"))
            for _ in range(chance.randrange(5, 15)):
                page = chance.choice(PAGES)
                try:
                    answer = await client.get(page)
                    use.answers[answer.status_code] += 1
                    if answer.status_code == 500:
                        use.failures.append(f"{page}: {answer.status_code} {answer.text[:200]}")
                except httpx.HTTPError as error:
                    use.failures.append(f"{page}: {error!r}")
                await load.write()
            stream.cancel()


async def follow(client: httpx.AsyncClient, path: str) -> None:
    """Reads a stream until it is cancelled or ends."""
    with suppress(httpx.HTTPError):
        async with client.stream("GET", path, timeout=None) as stream:
            async for _ in stream.aiter_lines():
                pass


if __name__ == "__main__":
    main()
