"""`penstock node format`: makes the log dirs of a configuration this node's, once, before its first start.

All dirs are checked before anything is written: a dir that is not empty is never formatted. If some dirs are this
node's already, only the new ones are formatted (a disk was added or replaced), but never that of the metadata log: a
voter that has forgotten its vote and its log could help to elect a leader that misses committed records. With --rejoin
it asks the other voters first (`voter_memory.py`). A lost voter that is formatted without --rejoin counts as a new one
and votes at once. A new cluster id is never made for a node that rejoins, because the cluster has one. A node that is
only a broker has promised nothing about the metadata: it fetches them again, into any dir.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache

from broker.config.config import load_config
from broker.config.config_check import without_kafka
from broker.config.node_config import NodeConfig
from broker.node.commands.add_scram import OPTION, ask_for_password, user_of
from broker.quorum.bootstrap_users import write_bootstrap_users
from broker.quorum.metadata_log import METADATA_PARTITION
from broker.quorum.voter_memory import VoterMemory
from metadata.records import UserScramCredentialRecord
from penstock.errors import ConfigError, MetaPropertiesError
from penstock.ids import Ids, system_ids
from penstock.plain_text import json_line, one_line
from storage.disk.file_names import partition_directory
from storage.disk.file_system import FileSystem, OsFileSystem
from storage.log_dirs.meta_properties import MetaProperties, format_directory, read_meta_properties, require_empty

_CLUSTER_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}")
"""A cluster id as `penstock.ids` makes it. Any other text would name a cluster that the other nodes refuse at the start
only."""


def main(
    config_path: str, cluster_id: str, rejoin: bool = False, add_scram: Sequence[str] = (), as_json: bool = False
) -> int:
    """The command; prints what was formatted."""
    config = load_config(config_path)
    format_and_tell(config, cluster_id, rejoin, users_of(config, add_scram, system_ids()), as_json)
    return 0


def format_and_tell(
    config: NodeConfig,
    cluster_id: str,
    rejoin: bool,
    users: Sequence[UserScramCredentialRecord],
    as_json: bool = False,
) -> None:
    """Format this machine's dirs, and print it."""
    formatted, cluster_id = format_node(
        config=config, cluster_id=cluster_id, fs=OsFileSystem(), ids=system_ids(), rejoin=rejoin, users=users
    )
    if as_json:
        told = {"cluster_id": cluster_id, "formatted": formatted, "users": [user.name for user in users]}
        sys.stdout.write(json_line({"node_id": config.node_id, **told}))
        if note := without_kafka(config):
            sys.stderr.write(f"penstock: {one_line(note)}\n")
        return
    for directory in formatted:
        sys.stdout.write(f"formatted {directory} for node {config.node_id} of cluster {cluster_id}\n")
    for user in dict.fromkeys(user.name for user in users):
        sys.stdout.write(f"user {user} is set when this controller leads, if the cluster has never had a user\n")
    if note := without_kafka(config):
        sys.stderr.write(f"penstock: {one_line(note)}\n")
    if rejoin:
        sys.stdout.write(f"voter {config.node_id} votes when the other voters have told it what it may have promised\n")


def format_if_empty(config_path: str, cluster_id: str) -> None:
    """Formats when no dir is formatted yet, for a start that may be the first. Formatted dirs must be of the cluster;
    all else is left to the start."""
    config = load_config(config_path)
    fs = OsFileSystem()
    found = formatted_dirs(config, fs)
    formatted = [(path, properties) for path, properties in found.items() if properties is not None]
    if not formatted:
        format_node(config, cluster_id, fs, system_ids())
    for directory, properties in formatted:
        if properties.cluster_id != cluster_id:
            raise MetaPropertiesError(
                f"{directory} is formatted for cluster {properties.cluster_id}, but this start is for {cluster_id}:"
                " leave --cluster-id out, or give a directory of that cluster"
            )


def format_node(
    config: NodeConfig,
    cluster_id: str,
    fs: FileSystem,
    ids: Ids,
    rejoin: bool = False,
    users: Sequence[UserScramCredentialRecord] = (),
) -> tuple[list[str], str]:
    """Formats what is not formatted; the dirs and the cluster id. MetaPropertiesError, or ConfigError for the id.

    `rejoin`: this node was a voter before, and what it promised went with its metadata log dir. Said again after an
    interruption, it does what is missing. `users` are those that a new cluster begins with.
    """
    if rejoin:
        _require_rejoinable(config, fs)
    found = formatted_dirs(config, fs)
    new = [directory for directory, properties in found.items() if properties is None]
    known = {directory: properties for directory, properties in found.items() if properties is not None}
    if cluster_id and not known and not _CLUSTER_ID.fullmatch(cluster_id):
        raise ConfigError(
            f"--cluster-id {cluster_id!r}: a cluster id has 22 letters, digits, '-' or '_'. `penstock cluster describe`"
            " shows the id of a running cluster; for a new cluster leave the option out"
        )
    if rejoin and not known and not cluster_id:
        raise ConfigError(
            "--rejoin needs --cluster-id here: no log dir of this node says which cluster it rejoins; "
            "`penstock cluster describe` of the other nodes shows the id"
        )
    chosen = cluster_id or next((properties.cluster_id for properties in known.values()), ids.new_id())
    for directory in new:
        require_empty(fs, directory)
    for directory, properties in known.items():
        _require_ours(config, directory, properties, chosen)
    if not new and not rejoin:
        raise MetaPropertiesError(
            f"{', '.join(known)}: formatted already, for node {config.node_id} of cluster {chosen}; start the node"
        )
    if known and config.is_controller and config.metadata_log_dir in new and not rejoin:
        raise MetaPropertiesError(
            f"{config.metadata_log_dir} held the metadata log of node {config.node_id} and is empty now; restore it, "
            "or, where other voters are a majority, format it with `penstock node format --rejoin`"
        )
    # That of the metadata log first: formatted alone, it may be joined by the others after an interruption.
    new.sort(key=lambda directory: directory != config.metadata_log_dir)
    if users and config.metadata_log_dir not in new:
        raise MetaPropertiesError(
            f"{config.metadata_log_dir} is formatted already, so its cluster has begun: leave {OPTION} out, and add"
            " users with `penstock users create`"
        )
    for directory in new:
        format_directory(fs, directory, chosen, config.node_id, ids.new_id())
    if users:
        write_bootstrap_users(fs, config.metadata_log_dir, users)
    if rejoin:
        memory = VoterMemory(config.metadata_log_dir, fs)
        memory.note_voted()
        memory.note_records()
    return new, chosen


def users_of(config: NodeConfig, add_scram: Sequence[str], ids: Ids) -> list[UserScramCredentialRecord]:
    """The users of `--add-scram`; ConfigError."""
    if add_scram and not config.is_controller:
        raise ConfigError(f"{OPTION} is for controllers, which have the metadata of the cluster; format one of them so")

    def new_salt() -> bytes:
        return (ids.new_id() + ids.new_id()).encode()

    ask = cache(ask_for_password)  # once for a user, whatever mechanisms it has
    users = [user_of(text, new_salt, ask) for text in add_scram]
    twice = [key for key, count in Counter((user.name, user.mechanism) for user in users).items() if count > 1]
    if twice:
        raise ConfigError(f"{OPTION}: {twice[0][0]} is there twice for one mechanism")
    return users


def _require_rejoinable(config: NodeConfig, fs: FileSystem) -> None:
    if not config.is_controller or len(config.first_voters) == 1:
        raise ConfigError(
            "--rejoin is for one of several voters: no other node knows what this node has promised; leave it out"
        )
    directory = f"{config.metadata_log_dir}/{partition_directory(METADATA_PARTITION)}"
    if fs.exists(directory):
        raise MetaPropertiesError(f"{directory} exists: --rejoin is for a voter that has lost it; start the node")


def formatted_dirs(config: NodeConfig, fs: FileSystem) -> dict[str, MetaProperties | None]:
    """The log dirs, and whose each is; None for one that is not formatted."""
    return {
        directory: read_meta_properties(fs, directory) if fs.exists(directory) else None
        for directory in config.log_dirs
    }


def _require_ours(config: NodeConfig, directory: str, properties: MetaProperties, cluster_id: str) -> None:
    if properties.node_id != config.node_id:
        raise MetaPropertiesError(
            f"{directory} belongs to node {properties.node_id}, but node.id = {config.node_id}; "
            "correct node.id or log.dirs in the configuration"
        )
    if properties.cluster_id != cluster_id:
        raise MetaPropertiesError(
            f"{directory} is formatted already, for cluster {properties.cluster_id}, not {cluster_id}; give that id, "
            "or another directory; if this node has never run, remove the directory and format it again"
        )
