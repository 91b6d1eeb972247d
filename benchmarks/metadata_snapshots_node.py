"""One controller for benchmarks/metadata_snapshots.py: CONFIG CLUSTER_ID OFFSET. A process with the product's node.

Starts a node, controller only, with everything that belongs to a snapshot: it loads the one in its metadata log dir, or
fetches one from the quorum's leader, and writes one when its configuration says so. Prints one JSON line when the image
has the offset, and one for each snapshot that it has written. Ends in order when stdin ends.

A task on the node's own event loop ticks each millisecond. What a tick came late is the stall. The times of a snapshot
are taken where its file is opened, read and renamed: at the disk, so that no code of the node is changed for it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import sys
import time
from dataclasses import replace
from pathlib import Path

import uvloop

from broker.config.config import load_config
from broker.config.node_config import NodeConfig
from broker.node.commands.format import format_node
from broker.node.environment import Environment
from broker.node.node import Node
from broker.node.open_log_dirs import open_log_dirs
from broker.node.system_environment import system_environment
from storage.disk.file_names import METADATA_SNAPSHOT_SUFFIX, PART_SUFFIX, TMP_SUFFIX
from storage.disk.file_system import OsFileSystem
from storage.log_dirs.log_manager import LogManager

TICK_S = 0.001
QUIET_S = 3.0
"""After the image is there, before the node counts as idle."""
STATUS = {"VmRSS": "rss_mib", "VmHWM": "peak_mib"}


class WatchedDisk(OsFileSystem):
    """Notes when the file of a snapshot was created, read and renamed."""

    def __init__(self) -> None:
        super().__init__()
        self.at: dict[str, float] = {}
        self.parts = 0

    def open(self, path: str, *, create: bool = False) -> int:
        if path.endswith(METADATA_SNAPSHOT_SUFFIX + TMP_SUFFIX):
            self.at["encoded"] = time.perf_counter()
        elif path.endswith(METADATA_SNAPSHOT_SUFFIX + PART_SUFFIX):
            self.parts += 1
            if create:
                self.at["first part"] = time.perf_counter()
        return super().open(path, create=create)

    def read_file(self, path: str) -> bytes:
        if METADATA_SNAPSHOT_SUFFIX in path:
            self.at["read"] = time.perf_counter()
        return super().read_file(path)

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        if new.endswith(METADATA_SNAPSHOT_SUFFIX):
            self.at["named"] = time.perf_counter()


class Watch:
    """Ticks on the node's loop, keeps the longest stall of each phase (s), and tells what has happened."""

    def __init__(self, node: Node, disk: WatchedDisk, wanted_offset: int, load_s: float) -> None:
        self._node, self._disk, self._wanted, self._load_s = node, disk, wanted_offset, load_s
        self._phase, self._longest = "start", dict.fromkeys(("start", "settle", "idle", "write"), 0.0)
        self._began = self._ready_at = self._writing_since = time.perf_counter()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            before = time.perf_counter()
            await asyncio.sleep(TICK_S)
            now = time.perf_counter()
            self._longest[self._phase] = max(self._longest[self._phase], now - before - TICK_S)
            self._look(now)

    def _look(self, now: float) -> None:
        is_writing = self._node.snapshotter.is_writing
        if self._phase == "start":
            if self._node.loader.image.offset >= self._wanted:
                self._phase, self._ready_at = "settle", now
                self._tell_ready(now)
        elif is_writing and self._phase != "write":
            self._phase, self._writing_since = "write", now
        elif not is_writing and self._phase == "write":
            self._phase = "idle"
            self._tell_written(now)
        elif self._phase == "settle" and now - self._ready_at >= QUIET_S:
            self._phase = "idle"

    def _tell_ready(self, now: float) -> None:
        at = self._disk.at
        fetched = {}
        if "first part" in at:
            fetched = {
                "fetch_s": at["read"] - at["first part"],
                "install_s": now - at["read"],
                "named_s": at["named"] - at["read"],
                "chunks": self._disk.parts - 1,
            }
        _tell("ready", load_s=self._load_s, stall_ms=1000 * self._longest["start"], **fetched)

    def _tell_written(self, now: float) -> None:
        newest, at = self._node.snapshotter.statistics().newest, self._disk.at
        _tell(
            "written",
            bytes=newest.size_bytes,
            encode_s=at["encoded"] - self._writing_since,
            write_s=now - at["encoded"],
            stall_ms=1000 * self._longest["write"],
            idle_stall_ms=1000 * self._longest["idle"],
            settle_stall_ms=1000 * self._longest["settle"],
        )


def _tell(what: str, **facts: float) -> None:
    lines = (line.partition(":") for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines())
    memory = {STATUS[key]: int(value.split()[0]) // 1024 for key, _, value in lines if key in STATUS}
    print(json.dumps({"what": what} | {key: round(value, 4) for key, value in facts.items()} | memory), flush=True)


async def _serve(config: NodeConfig, manager: LogManager, environment: Environment, wanted_offset: int) -> None:
    disk = environment.file_system
    if not isinstance(disk, WatchedDisk):
        raise TypeError(f"{disk!r} is not watched")
    began = time.perf_counter()
    node = Node(config, manager, environment)
    watch = asyncio.create_task(Watch(node, disk, wanted_offset, time.perf_counter() - began).run())
    await node.start()
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), stopped.set)
    await stopped.wait()
    watch.cancel()
    await node.stop()


def main() -> None:
    """Serves until stdin ends."""
    config_path, cluster_id, wanted_offset = sys.argv[1:4]
    logging.basicConfig(level=logging.ERROR)
    config = load_config(config_path)
    environment = replace(system_environment(), file_system=WatchedDisk())
    if not Path(config.log_dirs[0], "meta.properties").exists():
        format_node(config, cluster_id, environment.file_system, environment.ids)
    manager = open_log_dirs(config, environment, lambda progress: None)
    gc.collect()  # as the node's own process does it (broker/node/server.py)
    gc.freeze()
    uvloop.run(_serve(config, manager, environment, int(wanted_offset)))


if __name__ == "__main__":
    main()
