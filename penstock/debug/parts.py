"""The parts of a bundle, and the commands by which they are found. Pure.

Most parts are what a command of `penstock` prints for scripts: a maintainer can read the help of that command, and a
user can see beforehand what will be in the file. No part asks for records.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class BundlePart(NamedTuple):
    """A file of a bundle that a command prints."""

    path: str
    """The place in the bundle."""
    command: tuple[str, ...]
    """The arguments of `penstock`."""


DESCRIBED: Final = "cluster/describe.json"
CLUSTER_PARTS: Final = (
    BundlePart("cluster/health.json", ("cluster", "health", "--json")),
    BundlePart(DESCRIBED, ("cluster", "describe", "--json")),
    BundlePart("cluster/quorum.json", ("quorum", "describe", "--json")),
    BundlePart("cluster/features.json", ("features", "describe", "--json")),
    BundlePart("cluster/brokers.json", ("brokers", "list", "--json")),
    BundlePart("cluster/broker-default.json", ("configs", "describe", "--broker-default", "--json")),
    BundlePart("cluster/topics.json", ("topics", "describe", "--json")),
    BundlePart("cluster/declared.toml", ("export",)),
    BundlePart("cluster/log-dirs.json", ("log-dirs", "describe", "--replicas", "--json")),
    BundlePart("cluster/reassignments.json", ("reassignments", "list", "--json")),
    BundlePart("cluster/groups.json", ("groups", "list", "--json")),
    BundlePart("cluster/group-lag.json", ("groups", "describe", "--all", "--json")),
    BundlePart("cluster/transactions.json", ("transactions", "list", "--json")),
    BundlePart("cluster/hanging.json", ("transactions", "find-hanging", "--json")),
    BundlePart("cluster/metadata.jsonl", ("metadata", "dump", "--json")),
)


def broker_part(broker_id: int) -> BundlePart:
    """All configuration keys of a broker that runs."""
    command = ("configs", "describe", "--broker", str(broker_id), "--all", "--json")
    return BundlePart(f"cluster/broker-{broker_id}.json", command)


def node_parts(folder: str, config: str, log_dirs: tuple[str, ...]) -> tuple[BundlePart, ...]:
    """The parts of the node with this configuration file, whose metadata log is in the first log dir if it has one."""
    check = BundlePart(f"{folder}/check.json", ("node", "check", "--config", config, "--json"))
    dump = [BundlePart(f"{folder}/metadata.jsonl", ("metadata", "dump", log_dirs[0], "--json"))] if log_dirs else []
    return (check, *dump)
