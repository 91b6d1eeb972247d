"""`penstock node start --first-start begin|join|together` with a cluster id: a start that formats the log dirs where
none is.

Containers start on an empty volume, and nobody is there to run `penstock node format`. A volume that is empty was never
used, or was lost, and no file tells which. So the start joins, unless it is told that the cluster begins:

    join     a broker has promised nothing, and is formatted
             a controller of a dynamic quorum joins as a new disk, whatever its id has voted before (docs/adr/0036)
             one of several voters of controller.quorum.voters asks the others before it votes (docs/adr/0009)
    begin    the only voter of a new cluster: of a dynamic quorum, which others join later, or of the configuration's
    together begin on the first of controller.quorum.bootstrap.servers, and join everywhere else. Every node may be told
             so for ever, as pods of one template are: that first one begins only once each other server has said that
             it knows no quorum, and joins where one does (broker/quorum/voters/other_quorums.py)

Several voters of controller.quorum.voters that begin together could not be told from one that was lost, so `begin` is
refused for them. Dirs of another cluster, or of another node, are never touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.config.config import load_config
from broker.config.node_config import NodeConfig
from broker.node.commands.format import format_and_report, formatted_dirs, require_cluster, users_of
from broker.node.commands.initial_controllers import NO_OPTIONS, QuorumOptions
from metadata.listeners import CONTROLLER_LISTENER
from penstock.errors import ConfigError
from penstock.ids import system_ids
from penstock.lazy_dataclass import dataclass
from storage.disk.file_system import OsFileSystem

BEGIN: Final = "begin"
JOIN: Final = "join"
TOGETHER: Final = "together"
FIRST_START: Final = "--first-start"


@dataclass(frozen=True, slots=True)
class FirstFormat:
    """How the log dirs are formatted."""

    rejoin: bool = False
    quorum: QuorumOptions = NO_OPTIONS


def format_first(config_path: str, cluster_id: str, how: str, add_scram: Sequence[str] = ()) -> None:
    """Formats when no dir is formatted yet, and says so. Formatted dirs must be of the cluster; all else is left to the
    start. ConfigError or MetaPropertiesError."""
    if how not in (BEGIN, JOIN, TOGETHER):
        raise ConfigError(f"{FIRST_START} {how!r}: must be {BEGIN}, {JOIN} or {TOGETHER}")
    config = load_config(config_path)
    if how == TOGETHER:
        how = part_of(config)
    found = formatted_dirs(config, OsFileSystem())
    if any(found.values()):
        require_cluster(found, cluster_id)
        return
    first = first_format(config, how)
    users = users_of(config, add_scram if how == BEGIN else (), system_ids())  # a cluster that runs has its users
    format_and_report(config, cluster_id, first.rejoin, users, quorum=first.quorum)


def part_of(config: NodeConfig) -> str:
    """The part of this node in `together`, BEGIN or JOIN; ConfigError without bootstrap servers."""
    if not config.is_controller:
        return JOIN
    servers = config.controller_quorum_bootstrap_servers
    if config.controller_quorum_voters or not servers:
        raise ConfigError(
            f"{FIRST_START} {TOGETHER}: the first of controller.quorum.bootstrap.servers begins; give that key in the"
            " place of controller.quorum.voters, the same on every node"
        )
    own = (config.advertised_listeners.get(CONTROLLER_LISTENER), config.listeners.get(CONTROLLER_LISTENER))
    return BEGIN if servers[0] in own else JOIN


def first_format(config: NodeConfig, how: str) -> FirstFormat:
    """The format of a node on empty dirs; ConfigError where it could not be told what it may have promised."""
    if not config.is_controller:
        if how == BEGIN:
            raise ConfigError(
                f"{FIRST_START} {BEGIN}: a cluster begins with a controller, and this node is a broker alone; leave it"
                " out"
            )
        return FirstFormat()
    voters = config.controller_quorum_voters
    if not voters:
        return FirstFormat(quorum=QuorumOptions(standalone=how == BEGIN, join=how == JOIN))
    if how == BEGIN and len(voters) > 1:
        raise ConfigError(
            f"{FIRST_START} {BEGIN}: controller.quorum.voters names {len(voters)} voters, which begin together by"
            " `penstock node format` on each of them, once. Or give controller.quorum.bootstrap.servers in its place:"
            " then one controller begins, and the others join"
        )
    if how == JOIN and len(voters) == 1:
        raise ConfigError(
            f"{FIRST_START} {JOIN}: this node is the only voter of controller.quorum.voters, so there is no quorum to"
            f" join. If the cluster is new, give {BEGIN}; if it is not, the volume with its data is missing"
        )
    return FirstFormat(rejoin=how == JOIN)
