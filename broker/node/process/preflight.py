"""Refuses a start before anything is opened: a wrong configuration, certificates that do not work, or a listener
whose port is taken.

The launcher runs this first. It loads neither gRPC nor storage, so that a mistake is reported at once, in one line, and
no file is touched. If a port is taken between this check and the bind, the bind refuses it.
"""

from __future__ import annotations

import errno
import os
import random
import re
import socket

from broker.authentication.tokens.own_tokens import own_tokens
from broker.config.config import load_config
from broker.config.node_config import NodeConfig
from broker.node.own_certificates import own_certificates
from penstock.clock import SystemClock
from penstock.errors import ConfigError
from penstock.types import Endpoint

_DIRECTORY_ID = re.compile(r"[A-Za-z0-9_-]{22}")


def preflight(config_path: str) -> None:
    """ConfigError when the node could not start with this file now."""
    config = load_config(config_path)
    check_ports(config)
    own_certificates(config)
    own_tokens(config, SystemClock(), random.Random())
    if config.tls_listeners:
        # gRPC's library writes a line to stderr for each handshake that fails; a stranger could fill a disk with them.
        # It reads this when it is loaded.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def parse_lost_log_dirs(text: str) -> tuple[str, ...]:
    """The ids of `--lost-log-dirs`; ConfigError for what can be no id. An id that is not this broker's is no reason to
    refuse: after a start that gave it up, it is not registered any more."""
    ids = tuple(filter(None, map(str.strip, text.split(","))))
    wrong = next((one for one in ids if not _DIRECTORY_ID.fullmatch(one)), None)
    if wrong is not None or (text and not ids):
        raise ConfigError(
            f"--lost-log-dirs {text!r}: must be ids of log dirs (directory.id) of 22 letters, digits, '-' or '_', with"
            " commas between them; the error of a start without the option lists those that are missing"
        )
    return ids


def check_ports(config: NodeConfig) -> None:
    """Every listener can be bound."""
    for name, endpoint in config.listeners.items():
        _check_port("listeners", f"{name}://{endpoint}", endpoint, is_v6_only=name in config.kafka_listeners)
    if config.metrics_listener is not None:
        _check_port("metrics.listener", str(config.metrics_listener), config.metrics_listener)


def _check_port(key: str, shown: str, endpoint: Endpoint, *, is_v6_only: bool = False) -> None:
    """`is_v6_only`: the listener's socket of IPv6 takes no connection of IPv4."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(*endpoint, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers have it: TIME_WAIT is no bar
            if is_v6_only and family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind(address)
            probe.listen(1)  # two may bind with SO_REUSEADDR, but only one may listen
    except socket.gaierror as error:
        raise ConfigError(
            f"{key} = {shown}: {endpoint.host} cannot be resolved ({error.strerror}); correct the host"
        ) from None
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:  # as the public address of a machine behind a router is
            also = ", and name the address for others in advertised.listeners" if key == "listeners" else ""
            why = "this machine does not have that address; listen at one that it has, or at 0.0.0.0"
            raise ConfigError(f"{key} = {shown}: {why}{also}") from None
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"{key} = {shown}: {reason}; choose another, or stop the process that holds it") from None
