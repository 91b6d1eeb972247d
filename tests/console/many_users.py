"""Measures many people on one console: `python -m tests.console.many_users [--users 50] [--seconds 20]`.

Three secured nodes; each person is a user of the cluster, logs in by the form, keeps a page open, and fetches its
moving parts after each piece of news, as the page's script does (static/live.js). The pages are those of PAGES in turn.
With none, some and all of the people there are printed: processor time of the nodes and of the console in a second,
resident memory, the console's connections to the nodes, and how long a page took. Then everybody leaves the page and
stays logged in, and then the last ones of a full console are refused.

Exit code 1 if a page is not answered with 200, a log-in beyond the console's limit is taken, or there are more
connections than CONNECTIONS_OF_SESSION for each session and the watch, or a session keeps more than SESSION_BYTES_MAX.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.console import processor_ms
from penstock import Admin
from penstock.console.sessions import SESSIONS_MAX
from penstock.security import AclBinding, Operation, ResourceType, UserScramCredentialUpsertion
from penstock.testing import Cluster
from tests.console.memory import resident
from tests.support.console_process import started_console

PASSWORD = "a long password"
NODES = 3
EVERY_S = 2.0
CONNECTIONS_OF_SESSION = 2 * NODES
SESSION_BYTES_MAX = 2 << 20
PAGES = ("/overview", "/topic?name=orders", "/groups", "/flow", "/events")


@dataclass
class Person:
    """One user with a tab."""

    client: httpx.AsyncClient
    page: str
    took: list[float] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)

    async def look(self) -> None:
        """Follows the news until it is cancelled."""
        while True:
            with suppress(httpx.HTTPError):
                async with self.client.stream("GET", "/live", timeout=None) as stream:
                    async for line in stream.aiter_lines():
                        if line.startswith("data:"):
                            await self._fetch()
                            await asyncio.sleep(EVERY_S)

    async def _fetch(self) -> None:
        begun = time.monotonic()
        answer = await self.client.get(self.page, headers={"X-Penstock-Live": "1"})
        self.took.append(time.monotonic() - begun)
        if answer.status_code != 200:
            self.bad.append(f"{self.page}: {answer.status_code}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.console.many_users", description=__doc__)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20, help="the length of a look at each number of people")
    options = parser.parse_args()
    with Cluster(nodes=NODES, secure=True) as cluster:
        settle(cluster, options.users)
        login = cluster.client_options
        words = ("--username", login["username"], "--password-file", login["password_file"])
        with started_console(cluster.bootstrap, *words, tls_ca=login["tls_ca"]) as (process, url):
            ports = frozenset(cluster.ports(index).broker for index in range(NODES))
            machine = Machine([cluster.pid(index) for index in range(NODES)], process.pid, ports)
            sys.exit(asyncio.run(measured(options.users, options.seconds, url, machine)))


def settle(cluster: Cluster, users: int) -> None:
    """Topics, and users that may see everything."""
    options: dict[str, Any] = dict(cluster.client_options)
    with Admin(cluster.bootstrap, **options) as admin:
        for name in ("orders", "views", "payments"):
            admin.create_topic(name, partitions=6, replication_factor=3)
        names = [f"user-{number}" for number in range(users)]
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion(name, PASSWORD) for name in names])
        everything = ((ResourceType.CLUSTER, "kafka-cluster"), (ResourceType.TOPIC, "*"), (ResourceType.GROUP, "*"))
        admin.create_acls(
            [AclBinding(kind, name, f"User:{user}", Operation.DESCRIBE) for user in names for kind, name in everything]
        )


@dataclass(frozen=True)
class Machine:
    """The processes that pay."""

    nodes: Sequence[int]
    console: int
    ports: frozenset[int]
    """The nodes' listeners for clients."""

    def processor_ms(self) -> tuple[float, float]:
        """The processor time of the nodes, and that of the console."""
        return sum(map(processor_ms, self.nodes)), processor_ms(self.console)

    def connections(self) -> int:
        """The console's connections to the nodes."""
        own = {_target(link) for link in Path(f"/proc/{self.console}/fd").iterdir()}
        tables = (Path(f"/proc/net/{name}").read_text(encoding="ascii") for name in ("tcp", "tcp6"))
        lines = [line for table in tables for line in table.splitlines()[1:]]
        rows = [line.split() for line in lines]
        return sum(int(row[2].rpartition(":")[2], 16) in self.ports and f"socket:[{row[9]}]" in own for row in rows)


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


async def measured(users: int, seconds: float, url: str, machine: Machine) -> int:
    """The exit code."""
    people: list[Person] = []
    tasks: list[asyncio.Task[None]] = []
    await asyncio.sleep(5)
    base = resident(machine.console)
    try:
        for count in sorted({0, min(10, users), users}):
            for number in range(len(people), count):
                people.append(Person(await logged_in(url, number), PAGES[number % len(PAGES)]))
                tasks.append(asyncio.create_task(people[-1].look()))
            await look(people, seconds, machine)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        print("everybody is logged in, and has no page open:")
        await look([], seconds, machine)
        kept, connections = resident(machine.console) - base, machine.connections()
        refused = await fill(url, users, len(people))
    finally:
        for person in people:
            await person.client.aclose()
    bad = [one for person in people for one in person.bad]
    is_few = connections <= CONNECTIONS_OF_SESSION * (users + 1)
    is_well = not bad and refused and is_few and kept <= users * SESSION_BYTES_MAX
    print(f"{kept / users / 1024:.0f} KiB of the console for a session; {len(bad)} bad answers {bad[:3]}")
    print("result: many users cost what they may" if is_well else "result: NOT as it must be")
    return 0 if is_well else 1


async def look(people: Sequence[Person], seconds: float, machine: Machine) -> None:
    """Prints what so many people cost."""
    for person in people:
        person.took.clear()
    nodes_ms, console_ms = machine.processor_ms()
    begun = time.monotonic()
    await asyncio.sleep(seconds)
    took = time.monotonic() - begun
    after_nodes_ms, after_console_ms = machine.processor_ms()
    found = sorted(one for person in people for one in person.took) or [0.0]
    print(
        f"{len(people)} people: nodes {(after_nodes_ms - nodes_ms) / took:.0f} ms of a processor in a second together,"
        f" console {(after_console_ms - console_ms) / took:.0f} ms, {resident(machine.console) / 2**20:.0f} MiB, its"
        f" connections {machine.connections()}; nodes {sum(map(resident, machine.nodes)) / 2**20:.0f} MiB; {len(found)}"
        f" pages, median {statistics.median(found) * 1000:.0f} ms, slowest {found[-1] * 1000:.0f} ms",
        flush=True,
    )


async def fill(url: str, users: int, sessions: int) -> bool:
    """True if the console refuses the sessions that are too many, and says so."""
    clients: list[httpx.AsyncClient] = []
    try:
        clients += [await logged_in(url, number % users) for number in range(SESSIONS_MAX - sessions)]
        try:
            clients.append(await logged_in(url, 0))
        except RefusedError as error:
            print(f"session {SESSIONS_MAX + 1}: {error}")
            return "sessions of this console are taken" in str(error)
        return False
    finally:
        for client in clients:
            await client.aclose()


class RefusedError(Exception):
    """The console has refused a log-in."""


async def logged_in(url: str, number: int) -> httpx.AsyncClient:
    """The browser of one person."""
    client = httpx.AsyncClient(base_url=url, timeout=60, trust_env=False)
    token = re.search(r'name="token" value="(\w+)"', (await client.get("/login")).text)
    assert token is not None
    fields = {"token": token[1], "user": f"user-{number}", "password": PASSWORD}
    answer = await client.post("/login", data=fields, headers={"origin": url})
    if answer.status_code != 303:
        await client.aclose()
        raise RefusedError(f"{answer.status_code} {_alert(answer.text)}")
    return client


def _alert(text: str) -> str:
    found = re.search(r'role="alert"[^>]*>(.*?)</p>', text, re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", found[1] if found is not None else text[-500:]).split())


if __name__ == "__main__":
    main()
