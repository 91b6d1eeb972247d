"""Builds the container image twice, and runs nodes of it for real under podman: python -m tests.container.

the bases and the image, built twice        the same digest
one node, read-only root and no root        acks; what is refused; a container that is killed; signals to process 1
three nodes under a load with acks=all      a rolling update, container by container, each killed once, a volume lost

It needs root, podman, runc, buildah and mmdebstrap of Debian, and 2 GB; without them it says `skipped`. It is wrong
when the digests differ, a write failed, an acked record is missing, a stop was not clean, or a refusal gives no reason.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ops.container.image import FINAL_BASE, NAME, Builder, download_wheels
from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.version import __version__
from tests.container.nodes import Nodes
from tests.container.podman import Podman, containers, missing
from tests.growth.voters import PARTITIONS, TOPIC, Load
from tests.support.campaign.frame import Campaign, Run
from tests.support.campaign.options import option
from tests.support.waiting import wait_until

UPDATED = f"{NAME}:updated"
_DIRECTORY_ID = re.compile(r"[A-Za-z0-9_-]{22}")
OTHER_CLUSTER = "another-cluster-012345"
ORPHAN = "import os, time\nif os.fork(): os._exit(0)\ntime.sleep(0.2)"
"""Leaves a child to process 1 of its container, which ends soon after."""


@dataclass(frozen=True, slots=True)
class Options:
    rate: int = option(1_000, "records a second while containers are replaced")
    store: str = option("", "a folder that keeps the images; where it has them already, they are not built")
    driver: str = option("overlay", "of containers-storage; vfs works everywhere")
    calm_s: float = option(5.0, "seconds of load between two containers")


def play(run: Run[Options]) -> None:
    if lacking := missing():
        run.report.figures["skipped"] = f"needs {', '.join(lacking)}"
        return
    store = Path(run.options.store or run.directory / "store").absolute()
    podman = Podman(store, store.with_name(f"{store.name}-state"), run.options.driver)
    image = f"{NAME}:{__version__}"
    if podman.do("image", "exists", image).code:
        _build(run, podman)
    run.enter(containers(podman))
    podman.must("tag", image, UPDATED)
    _one_node(run, Nodes(podman, image, 1))
    _three_nodes(run, Nodes(podman, image, 3))


# -- the image ---------------------------------------------------------------------------------------------------------


def _build(run: Run[Options], podman: Podman) -> None:
    builder = Builder(podman.storage)
    with tempfile.TemporaryDirectory(prefix="penstock-image-") as folder:
        download_wheels(Path(folder))
        builder.base(Path(folder), is_final=False)
        digests, seconds = [], []
        for _ in range(2):
            began = time.monotonic()
            digests.append((builder.base(Path(folder), is_final=True), builder.image(Path(folder))))
            seconds.append(round(time.monotonic() - began, 1))
            run.say(f"built in {seconds[-1]} s: base {digests[-1][0]}, image {digests[-1][1]}")
    if digests[0] != digests[1]:
        run.report.wrong("not-reproducible", f"{digests[0]} and {digests[1]}")
    base, whole = builder.size(FINAL_BASE), builder.size(f"{NAME}:{__version__}")
    run.report.figures |= {"digest": digests[0][1], "build_s": seconds}
    run.report.figures |= {"base_mb": round(base / 1e6), "image_mb": round(whole / 1e6)}


# -- one node ----------------------------------------------------------------------------------------------------------


def _one_node(run: Run[Options], nodes: Nodes) -> None:
    podman = nodes.podman
    _says(run, "a mistyped variable", nodes.refused(0, NODEID="1").last_line, "did you mean PENSTOCK_NODE_ID?")
    _terminated_in_format(run, nodes)
    began = time.monotonic()
    nodes.start(0)
    nodes.wait("readyz", [0])
    with Admin(nodes.bootstrap) as admin:
        admin.create_topic(TOPIC, 1, 1)
    _acks(nodes, b"first")
    run.report.figures["start_to_ack_s"] = round(time.monotonic() - began, 2)
    _confined(run, nodes)
    _orphans(run, nodes)
    nodes.kill(0)
    nodes.start(0)
    run.report.figures["after_a_kill_s"] = nodes.wait("readyz", [0])
    _acks(nodes, b"second")
    code, run.report.figures["stop_s"] = nodes.stop(0)
    if code:
        run.report.wrong("bad-stop", f"exit code {code}")
    for what, said, changed in (
        ("another node's volume", "belongs to node 0", {"NODE_ID": "7"}),
        ("another cluster's volume", "is formatted for cluster", {"CLUSTER_ID": OTHER_CLUSTER}),
    ):
        done = nodes.refused(0, **changed)
        _says(run, what, done.last_line, said)
        if done.code != 2:
            run.report.wrong("bad-exit", f"{what}: {done.code}")
    podman.must("volume", "create", "of-root")
    mountpoint = Path(podman.must("volume", "inspect", "--format", "{{.Mountpoint}}", "of-root"))
    mountpoint.chmod(0o755)
    (mountpoint / "data").mkdir()
    _says(run, "a volume of root", nodes.refused(0, volume="of-root").last_line, "Permission denied")
    _terminated_early(run, nodes)
    nodes.start(0)
    nodes.wait("readyz", [0])
    if (found := _values(nodes)) != [b"first", b"second"]:
        run.report.wrong("lost", f"{found} after new containers on the volume")
    code, _ = nodes.stop(0, grace_s=0)
    run.report.figures["stopped_without_grace"] = code
    nodes.start(0)
    nodes.wait("readyz", [0])
    if _values(nodes) != [b"first", b"second"]:
        run.report.wrong("lost", "records after a stop without grace")
    nodes.stop(0)


def _acks(nodes: Nodes, value: bytes) -> None:
    with Producer(nodes.bootstrap, acks="all") as producer:
        producer.send(TOPIC, value).result()


def _values(nodes: Nodes) -> list[bytes | None]:
    with Consumer(nodes.bootstrap, auto_offset_reset="earliest") as consumer:
        end = sum(consumer.end_offsets([TopicPartition(TOPIC, 0)]).values())
        consumer.assign([TopicPartition(TOPIC, 0)])
        found: list[bytes | None] = []
        while len(found) < end:
            found += [record.value for record in consumer.poll(1_000)]
    return found


def _confined(run: Run[Options], nodes: Nodes) -> None:
    """The node is process 1, is not root, and has nothing to write to but its volume; the probe says that it serves."""
    podman, name = nodes.podman, nodes.name(0)
    status = Path(f"/proc/{podman.pid(name)}/status").read_text(encoding="ascii")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    run.report.figures["process_one"] = {"uid": fields["Uid"].split()[0], "capabilities": fields["CapEff"]}
    if fields["Uid"].split()[0] != "10001" or int(fields["CapEff"], 16) or fields["NSpid"].split()[-1] != "1":
        run.report.wrong("not-confined", status)
    for path in ("/opt/penstock", "/tmp", "/etc"):
        done = podman.do("exec", name, "python", "-c", f"open('{path}/file', 'w')")
        if done.code == 0:
            run.report.wrong("writable", path)
    if podman.do("exec", name, "/bin/sh", "-c", "true").code == 0:
        run.report.wrong("has-a-shell", "/bin/sh")
    began = time.monotonic()
    done = podman.do("exec", name, "python", "-IS", "/opt/penstock/bin/penstock-probe.py")
    run.report.figures["probe_by_exec_s"] = round(time.monotonic() - began, 2)
    if done.code:
        run.report.wrong("probe", done.out + done.err)


def _orphans(run: Run[Options], nodes: Nodes) -> None:
    """Processes that lose their parent in the container leave no zombie."""
    nodes.podman.must("exec", nodes.name(0), "python", "-c", ORPHAN)
    time.sleep(1)
    pid = nodes.podman.pid(nodes.name(0))
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    if children:
        run.report.wrong("zombies", f"{children} are left to process 1")


def _terminated_early(run: Run[Options], nodes: Nodes) -> None:
    """SIGTERM at moments of a start: each ends the container at once, in an orderly way or as a kill does."""
    seconds = []
    for wait_s in (0.0, 0.1, 0.2, 0.3, 0.5, 0.8):
        nodes.start(0)
        time.sleep(wait_s)
        code, took = nodes.stop(0, grace_s=30)
        seconds.append(took)
        if code not in (0, 143):
            run.report.wrong("bad-exit", f"SIGTERM after {wait_s} s: exit code {code}")
    run.report.figures["early_sigterm_s"] = seconds


def _terminated_in_format(run: Run[Options], nodes: Nodes) -> None:
    """SIGTERM at moments of a first start: the next one formats what is not formatted, and begins the cluster."""
    for wait_s in (0.2, 0.25, 0.3, 0.35, 0.4):
        nodes.start(0)
        time.sleep(wait_s)
        nodes.stop(0)
        nodes.start(0)
        nodes.wait("readyz", [0])
        nodes.stop(0)
        nodes.podman.must("volume", "rm", nodes.name(0))
    run.say("a format that is ended was begun anew, or was done")


def _says(run: Run[Options], what: str, found: str, wanted: str) -> None:
    run.say(f"{what}: {found}")
    if wanted not in found:
        run.report.wrong("not-said", f"{what}: {found!r} has no {wanted!r}")


# -- three nodes -------------------------------------------------------------------------------------------------------


def _three_nodes(run: Run[Options], nodes: Nodes) -> None:
    every = range(nodes.count)
    for node in every:
        nodes.start(node)
    run.report.figures["three_nodes_ready_s"] = nodes.wait("readyz", every)
    with Admin(nodes.bootstrap) as admin:
        admin.create_topic(TOPIC, PARTITIONS, nodes.count)
    nodes.wait("syncz", every)
    load = Load(nodes, run.report, run.options.rate)  # type: ignore[arg-type]
    with load.running():
        run.report.figures["rolling_update"] = _phase(run, nodes, load, "update", _update)
        run.report.figures["kill_9"] = _phase(run, nodes, load, "kill", _kill)
        time.sleep(run.options.calm_s)
        run.report.figures["lost_volume_s"] = _lost_volume(run, nodes)
    run.report.figures |= {"acked": len(load.acked), "lost": load.lost(), "topics_made": load.topics}
    run.report.figures["failed"] = run.report.anomalies["failed-write"]
    if run.report.figures["lost"]:
        run.report.wrong("lost", f"{run.report.figures['lost']} acked records")


def _phase(
    run: Run[Options], nodes: Nodes, load: Load, what: str, change: Callable[[Run[Options], Nodes, int], list[float]]
) -> dict[str, object]:
    """Each node once, with all replicas in sync before the next one."""
    load.gap_s, began, seconds = 0.0, time.monotonic(), []
    for node in range(nodes.count):
        time.sleep(run.options.calm_s)
        seconds.append(change(run, nodes, node))
        seconds[-1].append(nodes.wait("syncz", range(nodes.count)))
        run.say(f"{what} of node {node}: {seconds[-1]} s; longest gap of acks so far {load.gap_s:.2f} s")
    took = round(time.monotonic() - began, 1)
    return {"longest_gap_of_acks_s": round(load.gap_s, 2), "seconds": took, "of_each_s": seconds}


def _update(run: Run[Options], nodes: Nodes, node: int) -> list[float]:
    code, stopped_s = nodes.stop(node)
    if code:
        run.report.wrong("bad-stop", f"node {node}: exit code {code}")
    nodes.start(node, UPDATED)
    return [stopped_s, nodes.wait("readyz", [node])]


def _kill(run: Run[Options], nodes: Nodes, node: int) -> list[float]:
    nodes.kill(node)
    nodes.start(node, UPDATED)
    return [nodes.wait("readyz", [node])]


def _lost_volume(run: Run[Options], nodes: Nodes) -> list[float]:
    """Node 0 begins the cluster by its variables. Its volume is lost: it must neither begin another one nor vote, and
    its broker comes back only when an operator gives up what was on the disk."""
    began = time.monotonic()
    nodes.stop(0)
    nodes.podman.must("volume", "rm", nodes.name(0))
    said = nodes.ended(0)
    _says(run, "the first controller without its volume", said, "so it has not begun a second one, and joins it")
    said = nodes.ended(0)
    _says(run, "a broker without its volume", said, "--lost-log-dirs")
    found = _DIRECTORY_ID.search(said.partition("--lost-log-dirs")[2])
    nodes.start(0, command=("node", "start", "--lost-log-dirs", found[0] if found else ""))
    ready_s = nodes.wait("readyz", range(nodes.count))
    nodes.wait("syncz", range(nodes.count))
    with Admin(nodes.bootstrap) as admin:
        wait_until(lambda: {voter.node_id for voter in admin.describe_quorum().voters} == set(range(nodes.count)))
    return [ready_s, round(time.monotonic() - began, 1)]


CAMPAIGN = Campaign("tests.container", __doc__, Options, play)
