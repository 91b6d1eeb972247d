"""The rules between configuration keys: roles and listeners, voters, directories, time-outs. Changes nothing on disk.

Each function takes a complete NodeConfig and raises ConfigError with the key, the value and the remedy. The range and
type of single keys were checked by config.py before. Directories are only looked at, and need not exist yet.
"""

from __future__ import annotations

import itertools
import os

from broker.config.log_levels import parse_log_levels
from broker.config.node_config import NodeConfig
from broker.config.security_check import check_security
from metadata.cordon import EVERY_DIR
from metadata.listeners import CLIENT_LISTENERS_MAX, CONTROLLER_LISTENER
from penstock.addresses import ip_version
from penstock.errors import ConfigError
from penstock.types import CLIENT_LISTENER, Endpoint, ListenerType

DEDUPE_BUFFER_BYTES_MIN = 1024 * 1024
"""Limit for one cleaner thread; with less a log would be gone over too many times. Kafka's bound."""


def check_config(config: NodeConfig, *, looks_at_dirs: bool = True) -> None:
    """All the rules, in the order in which a reader of the file meets the keys."""
    _check_roles(config)
    _check_client_listeners(config)
    _check_listener_types(config)
    check_security(config)
    _check_ports(config)
    _check_quorum(config)
    _check_advertised(config)
    if looks_at_dirs:
        _check_log_dirs(config.log_dirs)
    _check_metadata_log_dir(config)
    parse_log_levels(config.logger_level)
    _check_numbers(config)
    _check_cleaner(config)
    _check_groups(config)
    for check in _OF_CHANGING_KEYS:
        check(config)


def conflicts(config: NodeConfig) -> list[str]:
    """Conflicts between the values in force, of which some come from the metadata: the controller knows no node's file,
    so it cannot refuse them. `min.insync.replicas` is not checked here: it counts for topics with more replicas than
    the file's default, too."""
    found = []
    for check in _OF_CHANGING_KEYS:
        try:
            check(config)
        except ConfigError as error:
            found.append(str(error))
    return found


def without_kafka(config: NodeConfig) -> str:
    """A note about a broker that Kafka's clients cannot use; "" for every other node."""
    if not config.is_broker or config.kafka_listeners:
        return ""
    return "listeners has none for Kafka's clients; KAFKA://host:9092 adds one, on every broker (docs/kafka-clients.md)"


def rack_warnings(config: NodeConfig) -> tuple[str, ...]:
    """A line for a selector of replicas that sends no consumer here."""
    if not config.is_broker or not config.replica_selector_class or config.broker_rack:
        return ()
    return (
        "replica.selector.class is set, and broker.rack is not: no consumer is sent to this node, whatever rack it"
        " names; set broker.rack (docs/follower-reads.md)",
    )


def _check_roles(config: NodeConfig) -> None:
    internal = config.inter_broker_listener_name
    more = [("broker", name) for name in config.client_listeners if name != "BROKER"]
    for role, name in (("broker", "BROKER"), ("broker", internal), ("controller", "CONTROLLER"), *more):
        if role in config.roles and name not in config.listeners:
            where = f"no {name} listener" + ", where the other brokers fetch from it" * (name == internal)
            raise ConfigError(f"listeners: process.roles has {role} but {where}; add {name}://host:port")
        if role not in config.roles and name in config.listeners:
            raise ConfigError(
                f"listeners: has {name} but process.roles does not have {role}; remove the listener or add the role"
            )


def _check_client_listeners(config: NodeConfig) -> None:
    names = config.client_listeners
    if len(names) > CLIENT_LISTENERS_MAX:
        raise ConfigError(
            f"listeners: {', '.join(names)} are {len(names)} listeners for clients; at most {CLIENT_LISTENERS_MAX} are "
            "allowed: remove some"
        )


def _check_listener_types(config: NodeConfig) -> None:
    """The tools of the house use BROKER, and the nodes the other two: these speak gRPC."""
    for name in config.listener_type_map:
        if name not in config.listeners:
            raise ConfigError(f"listener.type.map: {name} is not in listeners; add it there or remove it here")
    internal = config.inter_broker_listener_name
    for name in (CLIENT_LISTENER, CONTROLLER_LISTENER, internal):
        if name in config.listeners and config.listener_type(name) is not ListenerType.GRPC:
            whose = "for the nodes themselves" if name != CLIENT_LISTENER else "for Penstock's own clients and tools"
            raise ConfigError(
                f"listener.type.map: {name} has the type KAFKA, but it is {whose}, which speak gRPC; "
                + (
                    f"give inter.broker.listener.name another name, or write {name}:GRPC"
                    if name not in config.listener_type_map
                    else "remove it there, and add one more listener for Kafka's clients, like KAFKA://host:9092"
                )
            )


def _check_ports(config: NodeConfig) -> None:
    endpoints = [*config.listeners.values(), *([config.metrics_listener] if config.metrics_listener else [])]
    seen: set[Endpoint] = set()
    for endpoint in endpoints:
        if endpoint in seen:
            raise ConfigError(f"listeners: {endpoint} is used twice; give each listener its own port")
        seen.add(endpoint)
    more = {config.listeners[name] for name in config.client_listeners if name != CLIENT_LISTENER}
    if config.metrics_listener is not None:
        _check_metrics_port(config, config.metrics_listener)
    for (name, one), (other_name, other) in itertools.combinations(config.listeners.items(), 2):
        is_shared = one.is_every_address or other.is_every_address or {one, other} & more
        if one.port == other.port and is_shared and not _has_two_families(config, (name, other_name)):
            raise ConfigError(
                f"listeners: {one} and {other} have one port; give each listener its own port (two listeners for"
                " Kafka's clients may have one, at an address of IPv4 and one of IPv6)"
            )


def _has_two_families(config: NodeConfig, names: tuple[str, str]) -> bool:
    """Both speak Kafka's protocol, one over IPv4 and one over IPv6 alone: their sockets never meet, also at every
    address. gRPC's library takes both families for every address."""
    hosts = (config.listeners[name].host for name in names)
    return set(names) <= set(config.kafka_listeners) and {ip_version(host) for host in hosts} == {4, 6}


def _check_metrics_port(config: NodeConfig, metrics: Endpoint) -> None:
    for name, at in config.listeners.items():
        if at.port == metrics.port and (at.is_every_address or metrics.is_every_address):
            raise ConfigError(
                f"metrics.listener = {metrics}: {name}://{at} has the same port; give the metrics a port of their own"
            )


def _check_advertised(config: NodeConfig) -> None:
    for name in config.advertised_listeners:
        if name not in config.listeners:
            raise ConfigError(f"advertised.listeners: {name} is not in listeners; add it there or remove it here")
    for name, endpoint in config.advertised_listeners.items():
        if endpoint.is_every_address:
            raise ConfigError(
                f"advertised.listeners: nobody can connect to {name}://{endpoint}; "
                f'set advertised.listeners = "{name}://THIS-HOST:{endpoint.port}"'
            )


def _check_quorum(config: NodeConfig) -> None:
    """A node finds the quorum by the voters of its file, or by addresses that lead to those of the metadata log."""
    if config.controller_quorum_voters:
        _check_voters(config)
    elif not config.controller_quorum_bootstrap_servers:
        raise ConfigError(
            "controller.quorum.voters and controller.quorum.bootstrap.servers are not set: this node would find no"
            " controllers; give the second, with the host:port of every controller"
        )
    servers = config.controller_quorum_bootstrap_servers
    for endpoint in servers:
        key = f"controller.quorum.bootstrap.servers = {','.join(map(str, servers))}"
        if endpoint.is_every_address:
            raise ConfigError(f"{key}: nobody can connect to {endpoint}; name the host")
        if servers.count(endpoint) > 1:
            raise ConfigError(f"{key}: {endpoint} is given twice; keep one")
    if config.controller_quorum_auto_join_enable:
        _check_auto_join(config)


def _check_auto_join(config: NodeConfig) -> None:
    key = "controller.quorum.auto.join.enable = true"
    if not config.is_controller:
        raise ConfigError(f"{key}: is for controllers, and process.roles does not have controller; remove it")
    if config.controller_quorum_voters:
        raise ConfigError(
            f"{key}: no voter joins while controller.quorum.voters names the voters; remove it, or give"
            " controller.quorum.bootstrap.servers in the place of controller.quorum.voters"
        )


def _check_voters(config: NodeConfig) -> None:
    first = config.controller_quorum_voters
    is_voter = config.node_id in first
    voters = ",".join(f"{voter}@{endpoint}" for voter, endpoint in first.items())
    if "controller" in config.roles and not is_voter:
        raise ConfigError(
            f"controller.quorum.voters = {voters}: this controller is missing; add {config.node_id}@host:port"
        )
    if "controller" not in config.roles and is_voter:
        raise ConfigError(
            f"controller.quorum.voters = {voters}: node {config.node_id} is a voter, but its process.roles does not "
            "have controller; remove the voter or add the role"
        )
    endpoints = list(first.values())
    for endpoint in endpoints:
        if endpoint.is_every_address:
            raise ConfigError(f"controller.quorum.voters = {voters}: nobody can connect to {endpoint}; name the host")
        if endpoints.count(endpoint) > 1:
            raise ConfigError(
                f"controller.quorum.voters = {voters}: {endpoint} is given twice; give each voter its own"
            )


def _check_log_dirs(dirs: tuple[str, ...]) -> None:
    seen: dict[str, str] = {}
    inodes: dict[tuple[int, int], str] = {}
    for directory in dirs:
        real = os.path.realpath(directory)
        if real in seen:
            raise ConfigError(f"log.dirs: {directory} and {seen[real]} are the same directory; keep one")
        for other_real, other in seen.items():
            inner, outer = (directory, other) if real.startswith(_with_slash(other_real)) else (other, directory)
            if real.startswith(_with_slash(other_real)) or other_real.startswith(_with_slash(real)):
                raise ConfigError(
                    f"log.dirs: {inner} is inside {outer}; give directories that are not inside each other"
                )
        inode = _inode(real)
        if inode is not None and inode in inodes:
            raise ConfigError(f"log.dirs: {directory} and {inodes[inode]} are one directory (same inode); keep one")
        if inode is not None:
            inodes[inode] = directory
        seen[real] = directory


def _check_metadata_log_dir(config: NodeConfig) -> None:
    """One set of directories is formatted, locked and recovered; the metadata log is a log in one of them."""
    if config.metadata_log_dir not in config.log_dirs:
        raise ConfigError(
            f"metadata.log.dir = {config.metadata_log_dir}: is not one of log.dirs = {','.join(config.log_dirs)}; "
            "add it there, or leave it out for the first of them"
        )


def _check_numbers(config: NodeConfig) -> None:
    if config.min_insync_replicas > config.default_replication_factor:
        raise ConfigError(
            f"min.insync.replicas = {config.min_insync_replicas}: above default.replication.factor = "
            f"{config.default_replication_factor}, so no acks=all write could succeed; lower it or raise the factor"
        )
    if config.queued_max_request_bytes < config.socket_request_max_bytes:
        raise ConfigError(
            f"queued.max.request.bytes = {config.queued_max_request_bytes}: below socket.request.max.bytes = "
            f"{config.socket_request_max_bytes}, so one request could exceed it; raise it, or lower the other"
        )
    if config.replica_fetch_min_bytes > config.replica_fetch_response_max_bytes:
        raise ConfigError(
            f"replica.fetch.min.bytes = {config.replica_fetch_min_bytes}: above replica.fetch.response.max.bytes = "
            f"{config.replica_fetch_response_max_bytes}, so every fetch would wait for replica.fetch.wait.max.ms; "
            "lower it"
        )
    if config.replica_fetch_wait_max_ms > config.replica_lag_time_max_ms:
        raise ConfigError(
            f"replica.fetch.wait.max.ms = {config.replica_fetch_wait_max_ms}: above replica.lag.time.max.ms = "
            f"{config.replica_lag_time_max_ms}, so a follower that waits for records would leave the ISR; lower it"
        )
    if config.broker_heartbeat_interval_ms >= config.broker_session_timeout_ms:
        raise ConfigError(
            f"broker.heartbeat.interval.ms = {config.broker_heartbeat_interval_ms}: not below "
            f"broker.session.timeout.ms = {config.broker_session_timeout_ms}, so the broker would be fenced between "
            "two heartbeats; lower it to a third of the session"
        )


def _check_cleaner(config: NodeConfig) -> None:
    needed = config.log_cleaner_threads * DEDUPE_BUFFER_BYTES_MIN
    if config.log_cleaner_dedupe_buffer_size < needed:
        raise ConfigError(
            f"log.cleaner.dedupe.buffer.size = {config.log_cleaner_dedupe_buffer_size}: below 1 MiB for each of "
            f"log.cleaner.threads = {config.log_cleaner_threads}; raise it to {needed}"
        )


def _check_roll(config: NodeConfig) -> None:
    if config.log_roll_jitter_ms > config.log_roll_ms:
        raise ConfigError(
            f"log.roll.jitter.ms = {config.log_roll_jitter_ms}: above log.roll.ms = {config.log_roll_ms}, so a segment "
            "could be rolled before it is begun; lower it"
        )


def _check_compacted(config: NodeConfig) -> None:
    if "compact" in config.log_cleanup_policy and not config.log_cleaner_enable:
        raise ConfigError(
            "log.cleaner.enable = false: but log.cleanup.policy has compact, so topics would grow for ever; set it to "
            "true, or the policy to delete"
        )


def _check_compaction_lags(config: NodeConfig) -> None:
    least, most = config.log_cleaner_min_compaction_lag_ms, config.log_cleaner_max_compaction_lag_ms
    if least > most:
        raise ConfigError(
            f"log.cleaner.min.compaction.lag.ms = {least}: above log.cleaner.max.compaction.lag.ms = {most}; lower it"
        )


def _check_cordoned(config: NodeConfig) -> None:
    unknown = sorted(set(config.cordoned_log_dirs).difference(config.log_dirs, (EVERY_DIR,)))
    if unknown:
        raise ConfigError(
            f"cordoned.log.dirs = {','.join(config.cordoned_log_dirs)}: {unknown[0]} is not one of log.dirs = "
            f"{','.join(config.log_dirs)}; name some of these, or {EVERY_DIR} for all"
        )


_OF_CHANGING_KEYS = (_check_roll, _check_compacted, _check_compaction_lags, _check_cordoned)
"""The rules between keys of which one may change while the node runs."""


def _with_slash(path: str) -> str:
    return path.rstrip("/") + "/"


def _inode(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _check_groups(config: NodeConfig) -> None:
    low, high = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if low > high:
        raise ConfigError(
            f"group.min.session.timeout.ms = {low}: above group.max.session.timeout.ms = {high}, so no member could "
            "join; lower it, or raise the other"
        )
    pause, session = config.group_consumer_heartbeat_interval_ms, config.group_consumer_session_timeout_ms
    if pause >= session:
        raise ConfigError(
            f"group.consumer.heartbeat.interval.ms = {pause}: not below group.consumer.session.timeout.ms = {session}, "
            "so members would be taken out between two heartbeats; lower it"
        )
    if not config.group_consumer_assignors:
        raise ConfigError("group.consumer.assignors: empty; name uniform, range or both")
