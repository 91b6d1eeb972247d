"""Shows a controller as a voter of the quorum, for `penstock quorum add-voter --config FILE`.

Its id and the address of its listener CONTROLLER stand in the configuration, its directory id in its metadata log dir.
The node may run; nothing is changed. Not here: asking the quorum, which the command line does as any client.
"""

from __future__ import annotations

import sys

from broker.config.config import load_config
from broker.config.node_config import NodeConfig
from broker.quorum.voter_upkeep import own_voter
from metadata.listeners import CONTROLLER_LISTENER
from penstock.errors import ConfigError, MetaPropertiesError
from penstock.plain_text import json_line
from raft.voters import Voter
from storage.disk.file_system import FileSystem, OsFileSystem
from storage.log_dirs.meta_properties import read_meta_properties


def main(config_path: str, as_json: bool = False) -> int:
    """The command; ConfigError or MetaPropertiesError for a node that is no controller, or is not formatted."""
    voter = formatted_voter(load_config(config_path), OsFileSystem())
    address = voter.endpoint(CONTROLLER_LISTENER)
    if as_json:
        shown = {"voter_id": voter.voter_id, "directory_id": voter.directory_id, "address": str(address)}
        sys.stdout.write(json_line(shown))
    else:
        sys.stdout.write(f"{voter.voter_id}@{address}:{voter.directory_id}\n")
    return 0


def formatted_voter(config: NodeConfig, fs: FileSystem) -> Voter:
    """The voter that this node would be."""
    if not config.is_controller:
        raise ConfigError(f"process.roles: node {config.node_id} is no controller; only a controller can be a voter")
    directory = config.metadata_log_dir
    properties = read_meta_properties(fs, directory) if fs.exists(directory) else None
    if properties is None:
        raise MetaPropertiesError(f"{directory} is not formatted; run `penstock node format` first")
    if properties.node_id != config.node_id:
        raise MetaPropertiesError(f"{directory} belongs to node {properties.node_id}, and this is {config.node_id}")
    return own_voter(config, properties.directory_id)
