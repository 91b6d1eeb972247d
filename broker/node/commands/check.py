"""`penstock node check`: all that a start checks before it opens a log, without starting, and without a change.

The file and its keys; the certificates; the file of the audit log; the listeners' ports; the log dirs: whose they are,
whether they belong together, whether another process holds them; the metadata's feature levels; the voters among whom
this one has promised, and its vote. What would refuse the start is raised as the start raises it (exit code 2); what
the start would only warn of is printed. Where the node runs, its ports are its own. Not here: recovery, which reads the
logs (`penstock log verify`), and what the controller says to a registration. Of each listener a line says what it
speaks and whom it lets in.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

from broker.authentication.tokens.own_tokens import own_tokens, token_warnings
from broker.config.config import load_config
from broker.config.config_check import rack_warnings
from broker.config.config_variables import shown_source
from broker.config.exposed_listeners import exposed_listeners
from broker.config.idle_keys import security_warnings
from broker.config.listener_facts import listener_lines
from broker.config.node_config import NodeConfig
from broker.node.commands.recover_quorum import node_stopped
from broker.node.own_certificates import certificate_warnings, own_certificates
from broker.node.process.audit_file import check_audit_file
from broker.node.process.descriptors import open_files_limit, plan_descriptors, raise_open_files_limit
from broker.node.process.preflight import check_ports
from broker.quorum.metadata_loader import check_levels
from broker.quorum.metadata_log import METADATA_PARTITION, QuorumStateFile
from broker.quorum.metadata_reader import read_metadata
from broker.quorum.voter_memory import VoterMemory
from metadata.codec import UnsupportedMetadataRecordError
from metadata.features import TABLE
from penstock.clock import SystemClock
from penstock.errors import ConfigError, CorruptFileError, MetaPropertiesError
from penstock.plain_text import json_line, one_line
from penstock.version import __version__
from storage.disk.file_names import partition_directory
from storage.disk.file_system import FileSystem, OsFileSystem
from storage.log_dirs.meta_properties import require_empty, verify_log_dirs


def main(config_path: str, as_json: bool = False) -> int:
    """The command; ConfigError, MetaPropertiesError or CorruptFileError where the node would not start."""
    config = load_config(config_path)
    fs = OsFileSystem()
    warnings = [*exposed_listeners(config), *security_warnings(config), *rack_warnings(config)]
    warnings += certificate_warnings(config, own_certificates(config))
    own_tokens(config, SystemClock(), random.Random())
    check_audit_file(config)
    warnings += [*token_warnings(config), *check_log_dirs(config, fs)]
    raise_open_files_limit()
    descriptors = plan_descriptors(open_files_limit())
    if descriptors.warning:
        warnings.append(descriptors.warning)
    try:
        with node_stopped(fs, config):
            check_ports(config)
        state = "could start" if is_formatted(config, fs) else "could start once its log dirs are formatted"
    except MetaPropertiesError:
        state = "runs, and could start again"
    if as_json:
        node = {"version": __version__, "config": config_path, "node_id": config.node_id, "state": state}
        found = {"listeners": list(listener_lines(config)), "warnings": list(map(one_line, warnings))}
        sys.stdout.write(json_line({**node, **found}))
        return 0
    sys.stdout.write(f"penstock {__version__}\n")
    for line in listener_lines(config):
        sys.stdout.write(f"{line}\n")
    for warning in warnings:
        sys.stdout.write(f"warning: {one_line(warning)}\n")
    sys.stdout.write(f"{shown_source(config_path)}: node {config.node_id} {state}; {_count(len(warnings))}\n")
    return 0


def is_formatted(config: NodeConfig, fs: FileSystem) -> bool:
    """False before `penstock node format`: a start is refused then, and everything else can be checked."""
    return any(fs.exists(path) and "meta.properties" in fs.listdir(path) for path in config.log_dirs)


def check_log_dirs(config: NodeConfig, fs: FileSystem) -> Iterator[str]:
    """Warnings; MetaPropertiesError, ConfigError or CorruptFileError where the start is refused."""
    if not is_formatted(config, fs):
        for path in config.log_dirs:
            require_empty(fs, path)
        yield "no log dir is formatted yet: `penstock node format --config FILE` comes before the first start"
        return
    found, failed = verify_log_dirs(fs, config.log_dirs, None, config.node_id)
    for path, error in failed.items():
        yield f"{path}: its disk does not answer ({error.strerror}); the node would run on the others"
    if config.metadata_log_dir in found:
        _check_levels(config, fs)
    if config.is_controller and config.metadata_log_dir in found:
        yield from _check_voter(config, fs)


def _check_levels(config: NodeConfig, fs: FileSystem) -> None:
    """MetaPropertiesError where the metadata here have a feature level that this release does not know. Damaged ones
    are left to the start."""
    directory = f"{config.metadata_log_dir}/{partition_directory(METADATA_PARTITION)}"
    if not fs.exists(directory):
        return
    try:
        check_levels(TABLE, read_metadata(fs, directory))
    except UnsupportedMetadataRecordError as error:
        raise MetaPropertiesError(f"{directory}: {error}") from error
    except (ConfigError, CorruptFileError, OSError):
        return


def _check_voter(config: NodeConfig, fs: FileSystem) -> Iterator[str]:
    """The voters among whom this controller has promised, its vote, and, in a dynamic quorum, a lost vote. Lost records
    are noticed by the start, which opens the log."""
    memory = VoterMemory(config.metadata_log_dir, fs)
    memory.check_voters(config.first_voters.ids)
    directory = f"{config.metadata_log_dir}/{partition_directory(METADATA_PARTITION)}"
    file = QuorumStateFile(directory, fs)
    state = file.load() if fs.exists(directory) else None
    if memory.is_dynamic(len(config.first_voters)):
        memory.refuse_loss(state, file.path, directory, log_end_offset=0 if state is None else 1)
        if config.controller_quorum_voters:
            yield (
                "controller.quorum.voters does nothing here: the metadata log names the voters; remove it, and give"
                " controller.quorum.bootstrap.servers"
            )
        elif state is None and not memory.was_formatted_for_disks:
            yield (
                f"{config.metadata_log_dir} was formatted with controller.quorum.voters, and names no first voters, so"
                " this controller can only join a quorum; to begin one, empty the dir and format it again"
            )


def _count(warnings: int) -> str:
    return f"{warnings or 'no'} warning{'' if warnings == 1 else 's'}"
