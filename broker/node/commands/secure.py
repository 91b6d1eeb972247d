"""`penstock node format --secure`: gives a new node a certificate, its keys of security and, on a controller, a user.

    --ca DIR       ca.pem and node-ID.pem are used as they are; what is missing is made, where that is for this machine
    FILE           gets the keys of security that it lacks; those that it has are kept, and must leave nobody in unasked
    log dirs       are formatted, for the cluster that the certificate names

Said again, it goes on where it was interrupted, and changes nothing that is there. Everything is checked before
anything is written. A CA is made for a cluster whose controllers are all on this machine; for one of several machines
there must be one CA, so it is made once, by `penstock certs init`. The files are those of `penstock dev --secure`
(penstock/certs/secured.py). Not here: formatting (broker/node/commands/format.py); securing a cluster that has data.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from broker.config.config import parse_config, parse_config_file
from broker.config.config_file import config_values, read_config_file
from broker.config.config_variables import is_of_variables
from broker.config.keys.security_keys import (
    ALLOW_PLAINTEXT_NODES,
    AUTHORIZATION,
    METRICS_LISTENER,
    PROTOCOL_MAP,
    SECURITY,
    TLS_FILES,
    ClientAuth,
)
from broker.config.listener_keys import is_listener_key
from broker.config.node_config import NodeConfig
from broker.config.security_check import ALLOW_ALL
from broker.node.commands.add_scram import OPTION
from broker.node.commands.first_levels import NO_LEVEL_OPTIONS, LevelOptions
from broker.node.commands.format import format_and_report, formatted_dirs, users_of
from broker.node.commands.initial_controllers import NO_OPTIONS, QuorumOptions, beginning
from broker.node.own_certificates import own_certificates
from metadata.listeners import CONTROLLER_LISTENER
from metadata.records import UserScramCredentialRecord
from penstock.addresses import is_loopback
from penstock.certs.authority import PUBLIC, write_file
from penstock.certs.secured import ADMIN, MECHANISMS, OWN_HOSTS, Secured
from penstock.config_keys import to_toml
from penstock.errors import ConfigError, MetaPropertiesError
from penstock.ids import system_ids
from penstock.types import CLIENT_LISTENER, SecurityProtocol
from storage.disk.file_system import OsFileSystem

DEFAULT_CA: Final = "penstock-certs"
"""The default of `penstock certs --dir`."""
HEADING: Final = "# Security, by penstock node format --secure\n"
_TABLE: Final = re.compile(r"^[ \t]*\[", re.MULTILINE)
"""Keys at the end of a file would belong to its last table."""


def main(
    config_path: str,
    cluster_id: str,
    rejoin: bool,
    add_scram: Sequence[str],
    ca: str,
    quorum: QuorumOptions = NO_OPTIONS,
    levels: LevelOptions = NO_LEVEL_OPTIONS,
) -> int:
    """The command; ConfigError or MetaPropertiesError where it is refused."""
    if rejoin:
        raise ConfigError("--secure is for a new node, and --rejoin for one that the cluster knows; leave one out")
    if is_of_variables(config_path):
        raise ConfigError(
            "--secure writes keys into the configuration file, and `env:` asks for variables; give --config FILE, or"
            " set the variables of security by hand and make the files with `penstock certs`"
        )
    secured = Secured(Path(ca or DEFAULT_CA).absolute())
    data = read_config_file(config_path)
    given = config_values(config_path, data)
    plain = _without_security(config_path, given)
    name = _first_user(plain, add_scram)
    added = {key: value for key, value in _wanted(plain, secured, name).items() if key not in given}
    text = with_keys(data.decode("utf-8-sig"), added)
    config = parse_config_file(config_path, text.encode())
    _require_secure(config, name)
    done = _require_new(config, has_keys=not added)
    if formatted_dirs(config, OsFileSystem())[config.metadata_log_dir] is None:
        beginning(config, quorum, "")  # refuses options that do not fit, BEFORE anything is made
    if Path(config.ssl_keystore_location).exists():
        _cluster_of_certificate(config, cluster_id)
    else:
        _require_certificate_possible(config, secured, cluster_id, joins=quorum.join)
    try:
        users = () if done else _users(config, secured, add_scram, joins=quorum.join)
    except OSError as error:
        where = error.filename or secured.directory
        raise ConfigError(f"{where}: cannot be used ({error.strerror}); give another directory with --ca") from None
    _make_files(config, secured, cluster_id, add_scram)
    own = _cluster_of_certificate(config, cluster_id)
    if added:
        _write_config(config_path, text, added)
        sys.stdout.write(f"{config_path}: added {', '.join(added)}\n")
    if done:
        sys.stdout.write(f"node {config.node_id} of cluster {own} is secured and formatted already; nothing to do\n")
        return 0
    format_and_report(config, own, False, users, False, quorum, levels)
    _say_next(config, secured)
    return 0


# -- what is wanted ----------------------------------------------------------------------------------------------------


def _without_security(path: str, given: Mapping[str, object]) -> NodeConfig:
    """The node as it would be without security: whose it is, and where it listens."""
    left_out = {key.name for key in (*SECURITY, *AUTHORIZATION)}
    kept = {key: value for key, value in given.items() if key not in left_out and not is_listener_key(key)}
    listeners = kept.get("listeners", "")
    items = listeners if isinstance(listeners, list) else str(listeners).split(",")
    names = [str(item).partition("://")[0].strip() for item in items]
    if any(name in SecurityProtocol.__members__ for name in names):  # such a listener wants the files of its protocol
        protocols = [f"{name}:{name if name in SecurityProtocol.__members__ else 'PLAINTEXT'}" for name in names]
        kept |= {PROTOCOL_MAP: protocols, ALLOW_PLAINTEXT_NODES: True, **dict.fromkeys(TLS_FILES, "not read")}
    try:
        return parse_config(kept)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _first_user(config: NodeConfig, add_scram: Sequence[str]) -> str:
    """The name of the user that the cluster begins with."""
    if not add_scram:
        return ADMIN
    found = re.search(r'[\[,]name=(?:"([^"]*)"|([^,\]"]*))', add_scram[0])
    return (found[1] or found[2] or ADMIN) if found else ADMIN  # what is wrong with it is said when it is read


def _wanted(config: NodeConfig, secured: Secured, user: str) -> dict[str, object]:
    names = [*config.client_listeners, config.inter_broker_listener_name, CONTROLLER_LISTENER]
    if CLIENT_LISTENER not in names:
        names.insert(0, CLIENT_LISTENER)  # a controller alone has the map of all
    metrics = config.metrics_listener
    if metrics is not None and not is_loopback(metrics.host):
        names.append(METRICS_LISTENER)
    clients = {CLIENT_LISTENER, *config.client_listeners}
    return {**secured.node_keys(config.node_id, names, tuple(clients)), "super.users": f"User:{user}"}


def with_keys(text: str, added: Mapping[str, object]) -> str:
    """The file with these keys: at its end, or before everything else if it has tables."""
    if not added:
        return text
    block = HEADING + to_toml(added)
    if _TABLE.search(text):
        return f"{block}\n{text}"
    return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}\n{block}"


# -- what must hold before anything is written -------------------------------------------------------------------------


def _require_secure(config: NodeConfig, user: str) -> None:
    """ConfigError where a key that the file has leaves something open."""
    for name in config.listeners:
        protocol, needs_login = config.security_protocol(name), name in config.client_listeners
        asks = protocol.is_sasl or config.tls(name).client_auth is ClientAuth.REQUIRED
        if not protocol.is_tls or (needs_login and not asks):
            wanted = "SASL_SSL" if needs_login else "SSL"
            raise ConfigError(
                f"--secure: {PROTOCOL_MAP} leaves {name} {protocol}; write {name}:{wanted} there, or remove the key"
            )
    if not config.authorizer_class_name:
        raise ConfigError(
            "--secure: authorizer.class.name is empty, so every user may do everything; write StandardAuthorizer, or"
            " remove the key"
        )
    if config.allow_everyone_if_no_acl_found:
        raise ConfigError(f"--secure: {ALLOW_ALL} lets everybody do everything until there are ACLs; remove the key")
    if config.is_controller and f"User:{user}" not in config.super_user_principals:
        raise ConfigError(
            f"--secure: super.users has no User:{user}, the user that the cluster begins with, so nobody could give"
            f" others a right; add it there, or name one of super.users with {OPTION}"
        )


def _require_new(config: NodeConfig, *, has_keys: bool) -> bool:
    """True if the node is formatted whole; ConfigError for one that has data and is not secured."""
    found = formatted_dirs(config, OsFileSystem())
    if any(found.values()) and not has_keys:
        raise ConfigError(
            f"--secure: {next(path for path, value in found.items() if value)} is formatted already, and the"
            " configuration lacks keys of security: it is for new nodes. docs/security.md says how a cluster that has"
            " data is secured"
        )
    return all(found.values())


def _require_certificate_possible(config: NodeConfig, secured: Secured, cluster_id: str, *, joins: bool) -> None:
    """ConfigError where the certificate, which is missing, cannot be made here."""
    keystore = Path(config.ssl_keystore_location)
    node, at = f"penstock certs node {config.node_id}", secured.directory
    if keystore != secured.keystore(config.node_id):
        raise ConfigError(f"ssl.keystore.location = {keystore}: there is no such file; `{node}` makes one")
    if secured.ca.exists() and not secured.ca_key.exists():
        raise ConfigError(
            f"{at} has neither {keystore.name} nor ca.key: run `{node} --host HOST --dir DIR` where the CA is, and copy"
            f" {keystore.name} here"
        )
    if not secured.ca.exists() and (joins or not _is_on_one_machine(config)):
        raise ConfigError(
            f"{at} has no ca.pem: this cluster is on several machines, or has begun, and has one CA. Make it once with"
            f" `penstock certs init`, then `{node} --host HOST`, and copy ca.pem and {keystore.name} to {at}, or name"
            " their directory with --ca"
        )
    if secured.ca.exists() and cluster_id not in ("", secured.authority().cluster_id):
        raise ConfigError(
            f"--cluster-id {cluster_id}: the CA in {at} is that of cluster {secured.authority().cluster_id}; leave the"
            " option out, or give another --ca"
        )


def _is_on_one_machine(config: NodeConfig) -> bool:
    """Every controller has the address of this one."""
    own = [config.advertised_listeners[CONTROLLER_LISTENER]] if config.is_controller else []
    others = config.controller_quorum_voters.values() or [*config.controller_quorum_bootstrap_servers, *own]
    return config.is_controller and len({controller.host for controller in others}) == 1


def _users(
    config: NodeConfig, secured: Secured, add_scram: Sequence[str], *, joins: bool
) -> Sequence[UserScramCredentialRecord]:
    """The user of a controller: given, of the file of its password, or asked for. A cluster that it joins has users."""
    if add_scram or joins or not config.is_controller:
        return users_of(config, add_scram, system_ids())
    if secured.ca_key.exists() or not secured.ca.exists():
        secured.write_password()
    if secured.password_file.exists():
        return users_of(config, secured.first_user, system_ids())
    return users_of(config, [f"{mechanism}=[name={ADMIN}]" for mechanism in MECHANISMS], system_ids())


# -- what is made ------------------------------------------------------------------------------------------------------


def _make_files(config: NodeConfig, secured: Secured, cluster_id: str, add_scram: Sequence[str]) -> None:
    """The CA, the certificate, and the files for clients, where they are missing."""
    keystore = Path(config.ssl_keystore_location)
    if not keystore.exists():
        is_new = not secured.ca.exists()
        authority = secured.authority(cluster_id)
        if is_new:
            sys.stdout.write(f"made {secured.ca}, and {secured.ca_key}: who has that can be any node and any client\n")
        sys.stdout.write(f"made {authority.node(config.node_id, _hosts(config))}\n")
    has_client_streams = CLIENT_LISTENER in config.advertised_listeners
    if has_client_streams and not add_scram and secured.password_file.exists() and not secured.client_env.exists():
        secured.write_client_files(str(config.advertised_listeners[CLIENT_LISTENER]))


def _hosts(config: NodeConfig) -> list[str]:
    """The hosts by which clients and Prometheus reach this node."""
    endpoints = [*config.advertised_listeners.values(), *([config.metrics_listener] if config.metrics_listener else [])]
    return list(dict.fromkeys([*(at.host for at in endpoints if not at.is_every_address), *OWN_HOSTS]))


def _cluster_of_certificate(config: NodeConfig, cluster_id: str) -> str:
    """The cluster that the node's certificate names. ConfigError if a file is wrong, or another node's."""
    certificates = own_certificates(config)
    of_nodes = certificates.of(CONTROLLER_LISTENER) if certificates else None
    identity = of_nodes.current.keystore.identity if of_nodes else None
    if certificates is None or identity is None:
        raise ConfigError(f"ssl.keystore.location = {config.ssl_keystore_location}: names no node of a cluster")
    certificates.belong_to(identity.cluster_id)
    if cluster_id not in ("", identity.cluster_id):
        raise MetaPropertiesError(
            f"--cluster-id {cluster_id}: the certificate is for {identity}; leave the option out, or give another --ca"
        )
    return identity.cluster_id


def _write_config(path: str, text: str, added: Mapping[str, object]) -> None:
    """A file of another user is not the node's to write, as in /etc/penstock: then its lines are printed."""
    try:
        write_file(Path(path).resolve(), text.encode(), PUBLIC)
    except ConfigError as error:
        sys.stdout.write(to_toml(added))
        raise ConfigError(f"{error}; or add the lines above to the file yourself, and say this again") from None


def _say_next(config: NodeConfig, secured: Secured) -> None:
    if config.is_broker and secured.client_env.exists():
        sys.stdout.write(f"commands and programs are the user {ADMIN} after:  . {secured.client_env}\n")
