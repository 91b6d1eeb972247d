"""Watches the memory of a console over an hour's use: `python -m tests.console.memory [--hours 1] [--hour-minutes 6]`.

Three nodes have many topics and groups; a console watches them in a process of its own. Tabs ask for its pages, follow
its streams, and close again, one page after the other without a pause: an hour's use is as many answers as TABS people
take in an hour who look at each page for LOOKED_AT_S. Each answer is followed by some records that are written. The
console's own hour is over in `--hour-minutes`, so that all of its tables go round. The process's resident memory is
read each time that a minute's answers have come, and printed.

Exit code 1 if the console ends, an answer is a bug (500) or none comes, the memory is ever above RSS_MAX, or its level
over the last quarter of the run is more than GROWTH_MAX above that over the quarter before. Answers that the cluster
was too slow for (503) are counted and no failure.
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
from penstock.testing import Cluster
from tests.support.console_server import serving_console

TOPICS, PARTITIONS, GROUPS = 200, 6, 100
TABS = 20
LOOKED_AT_S = 2.5
AT_ONCE = 8
"""Tabs that ask at the same time: those of one person wait for 16 answers at most."""
RECORDS_AN_ANSWER = 20
RSS_MAX = 400 << 20
GROWTH_MAX = 2 << 20
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

    wanted: int
    answers: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    sampled: list[int] = field(default_factory=list)
    """The resident memory after each minute's answers."""

    @property
    def is_over(self) -> bool:
        return self.answers.total() + len(self.failures) >= self.wanted


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.console.memory", description=__doc__)
    parser.add_argument("--hours", type=float, default=1, help="the use, in answers")
    parser.add_argument("--hour-minutes", type=float, default=6, help="the time in which the console's hour is over")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--as-console", metavar="BOOTSTRAP", help=argparse.SUPPRESS)
    options = parser.parse_args()
    step_ms = round(options.hour_minutes * 60_000 / STEPS)
    if options.as_console:
        with serving_console(options.as_console, step_ms=step_ms) as url:
            print(url, flush=True)
            sys.stdin.read()
        return
    sys.exit(asyncio.run(watched(options)))


async def watched(options: argparse.Namespace) -> int:
    """The exit code."""
    a_minute = round(TABS * 60 / LOOKED_AT_S)
    use = Use(round(a_minute * 60 * options.hours))
    with Cluster(nodes=3) as cluster:
        fill(cluster)
        with console_process(cluster.bootstrap, options.hour_minutes) as (process, url):
            begun = time.monotonic()
            async with AsyncProducer(cluster.bootstrap, client_id="load") as producer, asyncio.TaskGroup() as tabs:
                for n in range(AT_ONCE):
                    chance = random.Random(options.seed + n)
                    tabs.create_task(tab(url, chance, use, Load(producer, use), process, a_minute))
            has_ended = process.poll() is not None
            print(f"{time.monotonic() - begun:.0f} s")
    return verdict(use, has_ended=has_ended)


def verdict(use: Use, *, has_ended: bool) -> int:
    quarter = max(1, len(use.sampled) // 4)
    before, after = (statistics.median(part) for part in (use.sampled[-2 * quarter : -quarter], use.sampled[-quarter:]))
    most = max(use.sampled)
    print(
        f"{use.answers.total()} answers {dict(use.answers)}, {len(use.failures)} failed; at most"
        f" {most / 2**20:.1f} MiB;"
        f" the last quarter {after / 2**20:.1f} MiB, {(after - before) / 2**20:+.1f} MiB against the one before"
    )
    for failure in use.failures[:5]:
        print(f"  {failure}")
    is_well = not has_ended and not use.failures and most <= RSS_MAX and after - before <= GROWTH_MAX
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
    process = subprocess.Popen([sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.stdin.close()
        try:
            process.wait(30)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def sample(process: subprocess.Popen[str], use: Use) -> None:
    with suppress(OSError), open(f"/proc/{process.pid}/statm", encoding="ascii") as statm:
        use.sampled.append(int(statm.read().split()[1]) * PAGE_BYTES)
        print(f"minute {len(use.sampled)}: {use.sampled[-1] / 2**20:.1f} MiB, {dict(use.answers)}", flush=True)


async def tab(
    url: str, chance: random.Random, use: Use, load: Load, process: subprocess.Popen[str], a_minute: int
) -> None:
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
                if use.answers.total() // a_minute > len(use.sampled):
                    sample(process, use)
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
