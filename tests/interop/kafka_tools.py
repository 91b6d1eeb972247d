"""Kafka's own tools change our quorum: python -m tests.interop.kafka_tools [--version 4.4.0].

three brokers, and five controllers in processes of their own; the first controller is the only voter
kafka-metadata-quorum.sh describes the quorum, adds two voters, removes the leader and another one
kafka-features.sh describes the levels, and raises and lowers what may be

The tools are Kafka's classes, unchanged, in a JVM of their own, at a broker's listener for Kafka's clients. What each
printed is compared with what our own administrator finds afterwards. Needs Java and Maven; the jars come from Maven
Central once (matrix/installs.py). `add-controller` reads a `meta.properties` of Kafka's form, which this writes for it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from penstock import Admin
from penstock.testing.ports import HOST
from tests.interop.matrix.clients import QUICK_JAVA, java_jars
from tests.support.campaign.frame import Campaign, Run
from tests.support.campaign.options import option
from tests.support.fleet import BROKERS, Fleet

TOOLS = "org.apache.kafka.tools."
QUORUM, FEATURES = f"{TOOLS}MetadataQuorumCommand", f"{TOOLS}FeatureCommand"
TOOL_S = 120.0
LAST_LINE = 200


@dataclass(frozen=True, slots=True)
class Options:
    version: str = option("", "Kafka's version; that of drivers/java/pom.xml otherwise")


class Tools:
    """Kafka's tools at one cluster; each run is a line of the table."""

    def __init__(self, run: Run[Options], fleet: Fleet) -> None:
        java, jars, self.version = java_jars(run.options.version or None)
        self._command, self._run, self._fleet = [java, *QUICK_JAVA, "-cp", f"{jars}/*"], run, fleet

    def run(self, what: str, tool: str, *arguments: str, before: Sequence[str] = (), refused: str = "") -> str:
        """Runs a tool to its end. `before`: options that stand before the tool's own command. With `refused` it must
        fail with an error of that name."""
        whole = [*self._command, tool, "--bootstrap-server", self._fleet.kafka_bootstrap, *before, *arguments]
        done = subprocess.run(whole, capture_output=True, text=True, timeout=TOOL_S, check=False)
        said = f"{done.stdout}\n{done.stderr}".strip()
        if bool(done.returncode) != bool(refused) or refused not in said:
            self._run.report.wrong(what, f"exit code {done.returncode}, {said[-1_000:]}")
        last = said.splitlines()[-1] if said else ""
        self._run.report.table.append(f"{what}: {done.returncode}, {last[:LAST_LINE]}")
        self._run.say(self._run.report.table[-1])
        return done.stdout


def play(run: Run[Options]) -> None:
    fleet = run.enter(Fleet(run.directory).running())
    for node in range(BROKERS + len(fleet.controllers)):
        fleet.make(node)
    first, *others = fleet.controllers
    fleet.format(first, "--standalone")
    for node in others:
        fleet.format(node, "--join")
    fleet.start(first, *others, *range(BROKERS))
    tools = Tools(run, fleet)
    run.report.figures["kafka"] = tools.version
    with Admin(fleet.bootstrap) as admin:
        change_voters(run, fleet, tools, admin)
        change_levels(run, tools, admin)


def change_voters(run: Run[Options], fleet: Fleet, tools: Tools, admin: Admin) -> None:
    """kafka-metadata-quorum.sh."""

    def voters() -> set[tuple[int, str]]:
        return {(voter.node_id, voter.directory_id) for voter in admin.describe_quorum().voters}

    def expect(what: str, *nodes: int) -> None:
        found, wanted = voters(), {(node, fleet.directory_id(node)) for node in nodes}
        if found != wanted:
            run.report.wrong(what, f"the voters are {sorted(found)}, not {sorted(wanted)}")

    first, second, third, *_ = fleet.controllers
    status = tools.run("describe --status", QUORUM, "describe", "--status")
    if not re.search(rf"LeaderId:\s+{first}\b", status) or fleet.directory_id(first) not in status:
        run.report.wrong("describe --status", status)
    for node in (second, third):
        tools.run(
            f"add-controller {node}", QUORUM, "add-controller", before=["--command-config", _as_kafka(fleet, node)]
        )
    expect("add-controller", first, second, third)
    replication = tools.run("describe --replication", QUORUM, "describe", "--replication")
    if len(re.findall(r"\b(?:Leader|Follower|Observer)\b", replication)) != BROKERS + len(fleet.controllers):
        run.report.wrong("describe --replication", replication)
    leader = admin.describe_quorum().leader_id
    left = {first, second, third} - {leader}
    tools.run(f"remove-controller {leader}, which leads", QUORUM, *_removal(fleet, leader))
    expect("remove-controller", *left)
    tools.run("remove-controller again", QUORUM, *_removal(fleet, leader), refused="VoterNotFoundException")
    tools.run("describe --status at the end", QUORUM, "describe", "--status")


def change_levels(run: Run[Options], tools: Tools, admin: Admin) -> None:
    """kafka-features.sh: what a dry run says is not done, and what the tool was told is what we find."""

    def expect(what: str, name: str, level: int) -> None:
        found = admin.describe_features().feature(name)
        if found is None or found.level != level:
            run.report.wrong(what, f"{name} is {found.level if found is not None else None}, not {level}")

    printed = tools.run("features describe", FEATURES, "describe")
    if (
        not re.search(r"Feature: group\.version\s.*FinalizedVersionLevel: 1\b", printed)
        or "metadata.version" not in printed
    ):
        run.report.wrong("features describe", printed)
    lowers = "downgrade", "--feature", "metadata.version=1"
    tools.run("downgrade of metadata.version, dry run", FEATURES, *lowers, "--dry-run")
    expect("a dry run", "metadata.version", 2)
    tools.run("downgrade of group.version", FEATURES, "downgrade", "--feature", "group.version=0")
    expect("downgrade of group.version", "group.version", 0)
    tools.run("downgrade that loses a level", FEATURES, *lowers, refused="would be lost")
    tools.run("upgrade of group.version", FEATURES, "upgrade", "--feature", "group.version=1")
    tools.run("downgrade of metadata.version", FEATURES, *lowers)
    expect("downgrade of metadata.version", "metadata.version", 1)
    tools.run("upgrade of metadata.version", FEATURES, "upgrade", "--feature", "metadata.version=2")
    expect("upgrade of metadata.version", "metadata.version", 2)
    tools.run(
        "upgrade to an unknown level", FEATURES, "upgrade", "--feature", "metadata.version=99", refused="does not know"
    )


def _removal(fleet: Fleet, node: int) -> list[str]:
    named = ["--controller-id", str(node), "--controller-directory-id", fleet.directory_id(node)]
    return ["remove-controller", *named]


def _as_kafka(fleet: Fleet, node: int) -> str:
    """The configuration of a controller, with the file of its disk, as Kafka's tool reads them."""
    home = fleet.directory / f"node-{node}" / "as-kafka"
    (home / "data").mkdir(parents=True)
    ids = {"cluster.id": fleet.cluster_id, "node.id": node, "directory.id": fleet.directory_id(node), "version": 1}
    (home / "data" / "meta.properties").write_text("".join(f"{key}={value}\n" for key, value in ids.items()))
    address = f"CONTROLLER://{HOST}:{fleet.ports[node].controller}"
    config = {
        "process.roles": "controller",
        "node.id": node,
        "controller.quorum.bootstrap.servers": f"{HOST}:{fleet.ports[node].controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": address,
        "advertised.listeners": address,
        "log.dirs": home / "data",
    }
    path = home / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
    return str(path)


CAMPAIGN = Campaign("tests.interop.kafka_tools", __doc__, Options, play)

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main())
