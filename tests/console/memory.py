"""Watches the memory of a console over time: `python -m tests.console.memory [--minutes 60] [--hour-minutes 60]`.

Three nodes have many topics and groups, and load; a console watches them in a process of its own, and tabs ask for
its pages, follow its streams, and close again. `--hour-minutes 6` lets the console's hour be over in six
minutes, so that in ten all of its tables have gone round. Every ten seconds the process's resident memory is read.
Printed is a line a minute. Exit code 1 if the console ends, an answer is a bug (500) or none comes, the memory is ever
above RSS_MAX, or it grows by more than GROWTH_MAX from the time at which the hour was full, or half the run is over, to
the end. Answers that the cluster was too slow for (503) are counted and no failure.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import httpx

from penstock import Admin, Producer, TopicPartition
from penstock.admin import NewTopic
from penstock.testing import Cluster
from tests.support.console_server import serving_console

TOPICS, PARTITIONS, GROUPS = 200, 6, 100
TABS = 20
RSS_MAX = 400 << 20
GROWTH_MAX = 24 << 20
EVERY_S = 10.0
STEPS = 720
PAGE_BYTES = 4096
PAGES = (
    *("/overview", "/brokers", "/topics", "/topic?name=t-7", "/records?topic=t-7", "/usage?topic=t-7", "/groups"),
    *("/group?id=g-7", "/quorum", "/moves", "/plan", "/pictures", "/series?subject=topic-records", "/flow", "/layout"),
    *("/events", "/layout?topic=t-7", "/topics?page=3", "/series.json?subject=group-lag", "/transactions"),
    *("/records?topic=t-7&from=oldest&value=nowhere", "/static/live.js", "/topic.json?name=t-7"),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.console.memory", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--hour-minutes", type=float, default=60, help="the time in which the console's hour is over")
    parser.add_argument("--tabs", type=int, default=TABS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--as-console", metavar="BOOTSTRAP", help=argparse.SUPPRESS)
    options = parser.parse_args()
    step_ms = round(options.hour_minutes * 60_000 / STEPS)
    if options.as_console:
        with serving_console(options.as_console, step_ms=step_ms) as url:
            print(url, flush=True)
            sys.stdin.read()
        return
    sys.exit(asyncio.run(watched(options, step_ms)))


async def watched(options: argparse.Namespace, step_ms: int) -> int:
    """The exit code."""
    with Cluster(nodes=3) as cluster:
        fill(cluster)
        with console_process(cluster.bootstrap, options.hour_minutes) as (process, url):
            answers, failures = Counter[int](), list[str]()
            load = asyncio.create_task(asyncio.to_thread(keep_writing, cluster.bootstrap, options.minutes))
            tabs = [
                asyncio.create_task(tab(url, random.Random(options.seed + n), answers, failures))
                for n in range(options.tabs)
            ]
            found = await sampled(process, options.minutes, answers)
            for one in tabs:
                one.cancel()
            await asyncio.gather(*tabs, return_exceptions=True)
            await load
            has_ended = process.poll() is not None
    return verdict(found, step_ms, answers, failures, has_ended=has_ended)


def verdict(
    found: list[tuple[float, int]], step_ms: int, answers: Counter[int], failures: list[str], *, has_ended: bool
) -> int:
    full_s = min(step_ms * STEPS / 1000, found[-1][0] / 2)
    settled = [rss for at_s, rss in found if at_s >= full_s]
    growth = settled[-1] - min(settled)
    most = max(rss for _, rss in found)
    print(
        f"{sum(answers.values())} answers {dict(answers)}, {len(failures)} failed; at most {most / 2**20:.1f} MiB,"
        f" from {full_s:.0f} s on {growth / 2**20:+.1f} MiB"
    )
    for failure in failures[:5]:
        print(f"  {failure}")
    is_well = not has_ended and not failures and most <= RSS_MAX and growth <= GROWTH_MAX
    print("result: the memory is bounded" if is_well else "result: NOT as it must be")
    return 0 if is_well else 1


def fill(cluster: Cluster) -> None:
    """Topics, records and groups."""
    with Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(f"t-{n}", PARTITIONS, 3) for n in range(TOPICS)])
        for n in range(GROUPS):
            admin.alter_group_offsets(f"g-{n}", {TopicPartition(f"t-{n}", p): 0 for p in range(PARTITIONS)})


def keep_writing(bootstrap: str, minutes: float) -> None:
    """Some records a second to some topics."""
    until, number = time.monotonic() + minutes * 60, 0
    with Producer(bootstrap, client_id="load") as producer:
        while time.monotonic() < until:
            for _ in range(20):
                number += 1
                producer.send(f"t-{number % TOPICS}", b"%d " % number * 20, key=b"%d" % (number % 1_000))
            producer.flush()
            time.sleep(0.1)


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


async def sampled(process: subprocess.Popen[str], minutes: float, answers: Counter[int]) -> list[tuple[float, int]]:
    """The resident memory by the seconds since the beginning."""
    begun, found, said = time.monotonic(), list[tuple[float, int]](), 0
    while time.monotonic() - begun < minutes * 60 and process.poll() is None:
        await asyncio.sleep(EVERY_S)
        at_s = time.monotonic() - begun
        with suppress(OSError), open(f"/proc/{process.pid}/statm", encoding="ascii") as statm:  # noqa: ASYNC230
            found.append((at_s, int(statm.read().split()[1]) * PAGE_BYTES))
        if at_s // 60 > said:
            said = int(at_s // 60)
            print(f"minute {said}: {found[-1][1] / 2**20:.1f} MiB, {sum(answers.values())} answers", flush=True)
    return found


async def tab(url: str, chance: random.Random, answers: Counter[int], failures: list[str]) -> None:
    """One person after another: pages, for some time beside a stream, and then the tab is closed."""
    while True:
        async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client, asyncio.TaskGroup() as group:
            stream = group.create_task(follow(client, "/live"))
            for _ in range(chance.randrange(5, 15)):
                page = chance.choice(PAGES)
                try:
                    answer = await client.get(page)
                    answers[answer.status_code] += 1
                    if answer.status_code == 500:
                        failures.append(f"{page}: {answer.status_code} {answer.text[:200]}")
                except httpx.HTTPError as error:
                    failures.append(f"{page}: {error!r}")
                await asyncio.sleep(chance.uniform(1, 4))
            stream.cancel()


async def follow(client: httpx.AsyncClient, path: str) -> None:
    """Reads a stream until it is cancelled or ends."""
    with suppress(httpx.HTTPError):
        async with client.stream("GET", path, timeout=None) as stream:
            async for _ in stream.aiter_lines():
                pass


if __name__ == "__main__":
    main()
