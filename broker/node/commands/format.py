"""`penstock node format`: makes the log dirs of a configuration this node's, once, before its first start.

All dirs are checked before anything is written: a dir that is not empty is never formatted. If some dirs are this
node's already, only the new ones are formatted (a disk was added or replaced), but never that of the metadata log: a
voter that has forgotten its vote and its log could help to elect a leader that misses committed records. With --rejoin
it asks the other voters first (`voter_memory.py`). A lost voter that is formatted without --rejoin counts as a new one
and votes at once. A new cluster id is never made for a node that rejoins, because the cluster has one. A node that is
only a broker has promised nothing about the metadata: it fetches them again, into any dir.

A controller without `controller.quorum.voters` is told how its quorum begins (initial_controllers.py). There a voter is
its disk: a lost one is formatted as another, with --join.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from broker.config.config import load_config
from broker.config.config_check import without_kafka
from broker.config.node_config import NodeConfig
from broker.node.commands.add_scram import OPTION, ask_for_password, user_of
from broker.node.commands.first_levels import NO_LEVEL_OPTIONS, LevelOptions, levels_to_begin_with
from broker.node.commands.initial_controllers import (
    NO_OPTIONS,
    DynamicBeginning,
    QuorumOptions,
    beginning,
    require_fitting,
    require_no_second_beginning,
)
from broker.quorum.bootstrap_users import write_bootstrap_users
from broker.quorum.features.bootstrap_levels import write_bootstrap_levels
from broker.quorum.first_voters import read_first_voters, write_first_voters
from broker.quorum.metadata_log import METADATA_PARTITION
from broker.quorum.voter_memory import NEW_DISK, VOTER_FILE, VoterMemory
from metadata.listeners import CONTROLLER_LISTENER
from metadata.records import UserScramCredentialRecord
from penstock.errors import ConfigError, MetaPropertiesError
from penstock.ids import Ids, system_ids
from penstock.plain_text import json_line, one_line
from storage.disk.file_names import BOOTSTRAP_LEVELS, BOOTSTRAP_USERS, FIRST_VOTERS, partition_directory
from storage.disk.file_system import FileSystem, OsFileSystem
from storage.log_dirs.meta_properties import (
    DYNAMIC_VOTERS,
    VERSION,
    MetaProperties,
    format_directory,
    read_meta_properties,
    require_empty,
)

_CLUSTER_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}")
"""A cluster id as `penstock.ids` makes it. Any other text would name a cluster that the other nodes refuse at the start
only."""


def main(
    config_path: str,
    cluster_id: str,
    rejoin: bool = False,
    add_scram: Sequence[str] = (),
    as_json: bool = False,
    quorum: QuorumOptions = NO_OPTIONS,
    levels: LevelOptions = NO_LEVEL_OPTIONS,
) -> int:
    """The command; prints what was formatted."""
    config = load_config(config_path)
    format_and_report(config, cluster_id, rejoin, users_of(config, add_scram, system_ids()), as_json, quorum, levels)
    return 0


def format_and_report(
    config: NodeConfig,
    cluster_id: str,
    rejoin: bool,
    users: Sequence[UserScramCredentialRecord],
    as_json: bool = False,
    quorum: QuorumOptions = NO_OPTIONS,
    level_options: LevelOptions = NO_LEVEL_OPTIONS,
) -> None:
    """Format this machine's dirs, and print it."""
    fs = OsFileSystem()
    levels = levels_to_begin_with(
        config, level_options, joins="--rejoin" if rejoin else "--join" if quorum.join else ""
    )
    if level_options.given and formatted_dirs(config, fs)[config.metadata_log_dir] is not None:
        raise MetaPropertiesError(
            f"{config.metadata_log_dir} is formatted already: leave {level_options.given} out, and change levels with"
            " `penstock features` once the cluster runs; or, if no node has started yet, empty the log dirs, and format"
            " them anew"
        )
    formatted, cluster_id = format_node(
        config=config,
        cluster_id=cluster_id,
        fs=fs,
        ids=system_ids(),
        rejoin=rejoin,
        users=users,
        quorum=quorum,
        levels=levels,
    )
    begun = _begun(config, fs) if config.metadata_log_dir in formatted else None
    if as_json:
        shown: dict[str, object] = {"cluster_id": cluster_id, "formatted": formatted}
        shown["users"] = [user.name for user in users]
        if begun is None or begun.voters.voters:
            shown["levels"] = dict(levels) if config.metadata_log_dir in formatted else {}
        if begun is not None:
            shown |= {"directory_id": begun.directory_id, "first_voters": begun.voters.ids}
        sys.stdout.write(json_line({"node_id": config.node_id, **shown}))
    else:
        for line in _lines(config, cluster_id, formatted, users, begun, rejoin=rejoin):
            sys.stdout.write(f"{line}\n")
    if note := without_kafka(config):
        sys.stderr.write(f"penstock: {one_line(note)}\n")


def _lines(
    config: NodeConfig,
    cluster_id: str,
    formatted: Sequence[str],
    users: Sequence[UserScramCredentialRecord],
    begun: DynamicBeginning | None,
    *,
    rejoin: bool,
) -> Iterator[str]:
    for directory in formatted:
        yield f"formatted {directory} for node {config.node_id} of cluster {cluster_id}"
    for user in dict.fromkeys(user.name for user in users):
        yield f"user {user} is set when this controller leads, if the cluster has never had a user"
    if rejoin:
        yield f"voter {config.node_id} votes when the other voters have told it what it may have promised"
    if begun is not None and begun.voters.voters:
        yield f"the quorum begins with {begun.voters.listed(CONTROLLER_LISTENER)}; here with {begun.directory_id}"
    elif begun is not None:
        yield f"controller {config.node_id} joins with directory id {begun.directory_id}; it votes once it is added"


def _begun(config: NodeConfig, fs: FileSystem) -> DynamicBeginning | None:
    """The beginning that was written; None on a broker, and in a static quorum."""
    voters = read_first_voters(fs, config.metadata_log_dir)
    properties = read_meta_properties(fs, config.metadata_log_dir)
    return None if voters is None or properties is None else DynamicBeginning(properties.directory_id, voters)


def format_if_empty(config_path: str, cluster_id: str) -> None:
    """Formats when no dir is formatted yet, for a start that may be the first. Formatted dirs must be of the cluster;
    all else is left to the start."""
    config = load_config(config_path)
    fs = OsFileSystem()
    found = formatted_dirs(config, fs)
    if not any(found.values()):
        format_node(config, cluster_id, fs, system_ids(), levels=levels_to_begin_with(config, NO_LEVEL_OPTIONS))
    require_cluster(found, cluster_id)


def require_cluster(found: Mapping[str, MetaProperties | None], cluster_id: str) -> None:
    """MetaPropertiesError for a formatted dir of another cluster than that of the start."""
    for directory, properties in found.items():
        if properties is not None and properties.cluster_id != cluster_id:
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
    quorum: QuorumOptions = NO_OPTIONS,
    levels: Mapping[str, int] | None = None,
) -> tuple[list[str], str]:
    """Formats what is not formatted; the dirs and the cluster id. MetaPropertiesError, or ConfigError for the id.

    `rejoin`: this node was a voter before, and what it promised went with its metadata log dir. Said again after an
    interruption, it does what is missing. `users` are those that a new cluster begins with. `quorum` says how a dynamic
    one begins. `levels` are those of features that a new cluster begins with: without any, those of release 0.2.0.
    """
    if rejoin:
        _require_rejoinable(config, fs)
    require_fitting(config, quorum)
    found = formatted_dirs(config, fs)
    new = [directory for directory, properties in found.items() if properties is None]
    known = {directory: properties for directory, properties in found.items() if properties is not None}
    _require_cluster_id(cluster_id, is_known=bool(known), joins=rejoin or quorum.join, option=quorum.given)
    chosen = cluster_id or next((properties.cluster_id for properties in known.values()), ids.new_id())
    prepared = (VOTER_FILE,) if rejoin else ()
    for directory in new:
        require_empty(fs, directory, prepared if directory == config.metadata_log_dir else ())
    for directory, properties in known.items():
        _require_ours(config, directory, properties, chosen)
    if not new and not rejoin:
        raise MetaPropertiesError(
            f"{', '.join(known)}: formatted already, for node {config.node_id} of cluster {chosen}; start the node"
        )
    _require_beginning(config, quorum, found, has_users=bool(users), rejoin=rejoin)
    # That of the metadata log first: formatted alone, it may be joined by the others after an interruption.
    new.sort(key=lambda directory: directory != config.metadata_log_dir)
    if config.metadata_log_dir in new:
        _format_metadata_log_dir(config, chosen, fs, ids, quorum, users, levels or {}, rejoin=rejoin)
    for directory in new:
        if directory != config.metadata_log_dir:
            format_directory(fs, directory, chosen, config.node_id, ids.new_id())
    if rejoin:
        _note_promises(config.metadata_log_dir, fs)
    return new, chosen


def _note_promises(metadata_log_dir: str, fs: FileSystem) -> None:
    """The voter has promised something that it does not know."""
    memory = VoterMemory(metadata_log_dir, fs)
    memory.note_voted()
    memory.note_records()


def _format_metadata_log_dir(
    config: NodeConfig,
    cluster_id: str,
    fs: FileSystem,
    ids: Ids,
    quorum: QuorumOptions,
    users: Sequence[UserScramCredentialRecord],
    levels: Mapping[str, int],
    *,
    rejoin: bool,
) -> None:
    """Formats it with what the quorum and the cluster begin with, and without what an interrupted format has left. A
    voter that rejoins can be started only AFTER its note is there: without it, it would count as a new one, and vote.
    """
    path, new_id = config.metadata_log_dir, ids.new_id()
    begins = beginning(config, quorum, new_id)

    def write_beginning() -> None:
        for name in (FIRST_VOTERS, BOOTSTRAP_USERS, BOOTSTRAP_LEVELS):
            if fs.exists(f"{path}/{name}"):
                fs.unlink(f"{path}/{name}")
                fs.fsync_dir(path)
        if begins is not None:
            write_first_voters(fs, path, begins.voters)
        if users:
            write_bootstrap_users(fs, path, users)
        if levels:
            write_bootstrap_levels(fs, path, levels)
        if rejoin:
            _note_promises(path, fs)

    directory_id, version = (new_id, VERSION) if begins is None else (begins.directory_id, DYNAMIC_VOTERS)
    prepared = (VOTER_FILE,) if rejoin else ()
    format_directory(
        fs,
        path,
        cluster_id,
        config.node_id,
        directory_id,
        version=version,
        prepare=write_beginning,
        prepared=prepared,
    )


def _require_cluster_id(cluster_id: str, *, is_known: bool, joins: bool, option: Sequence[str]) -> None:
    """ConfigError for an id that no cluster has, and for none where only the running cluster knows it."""
    if cluster_id and not is_known and not _CLUSTER_ID.fullmatch(cluster_id):
        raise ConfigError(
            f"--cluster-id {cluster_id!r}: a cluster id has 22 letters, digits, '-' or '_'. `penstock cluster describe`"
            " shows the id of a running cluster; for a new cluster leave the option out"
        )
    if joins and not is_known and not cluster_id:
        raise ConfigError(
            f"{option[0] if option else '--rejoin'} needs --cluster-id here: no log dir of this node says which cluster"
            f" it {'joins' if option else 'rejoins'}; `penstock cluster describe` of the other nodes shows the id"
        )


def _require_beginning(
    config: NodeConfig,
    quorum: QuorumOptions,
    found: Mapping[str, MetaProperties | None],
    *,
    has_users: bool,
    rejoin: bool,
) -> None:
    """MetaPropertiesError or ConfigError where the metadata log dir has begun already, or was lost."""
    path, known = config.metadata_log_dir, [properties for properties in found.values() if properties is not None]
    if found[path] is not None:
        if quorum.given and config.is_controller:
            raise MetaPropertiesError(
                f"{path} is formatted already, and the node has begun: leave {quorum.given[0]} out"
            )
        if has_users:
            raise MetaPropertiesError(
                f"{path} is formatted already, so its cluster has begun: leave {OPTION} out, and add users with"
                " `penstock users create`"
            )
        return
    is_dynamic = not config.controller_quorum_voters
    if known and config.is_controller and is_dynamic:
        require_no_second_beginning(config, quorum)
    elif known and config.is_controller and not rejoin:
        raise MetaPropertiesError(
            f"{path} held the metadata log of node {config.node_id} and is empty now; restore it, "
            "or, where other voters are a majority, format it with `penstock node format --rejoin`"
        )
    beginning(config, quorum, "")  # refuses options that do not fit, BEFORE anything is written


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
    if config.is_controller and not config.controller_quorum_voters:
        raise ConfigError(
            "--rejoin is for the voters of controller.quorum.voters, and the voters of this quorum are disks. Where"
            f" other voters are a majority, {NEW_DISK}"
        )
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
