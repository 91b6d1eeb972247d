"""The certificates of a running node: read at its start, and again when a file changes. Nothing needs a restart.

    start    every file is read, and one that does not work refuses the start
    then     every LOOK_SECONDS each file is read through the async file port; what changed is checked as at the start

A new file is taken whole or not at all. While it is broken the old one stays in force, the log says why once, and the
metrics show it. The maker of a connection asks for `of(listener).current` then; connections that stand keep what they
began with.

A node's certificate names the node (penstock/certs/node_identity.py); that of another is refused, whenever it comes.
An edge. Not here: what is in a file (pem.py), and TLS itself (broker/grpc/credentials.py, broker/kafka/connection/).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from broker.config.keys.security_keys import TlsSettings
from broker.config.node_config import NodeConfig
from broker.tls.material import FILE_BYTES_MAX, CertificateStatistics, Material, Owner
from broker.tls.pem import read_keystore, read_truststore
from broker.tls.principals import PrincipalRules, owner_of
from broker.tls.purpose import Purpose, check_purpose, client_warnings
from metadata.listeners import CONTROLLER_LISTENER
from penstock.certs.node_identity import NodeIdentity
from penstock.errors import ConfigError
from storage.disk.async_files import AsyncFiles

_log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 5.0
"""A look reads some kilobytes, which are in the page cache."""
DAY_MS: Final = 86_400_000
SOON_MS: Final = 14 * DAY_MS
OWNERS_KEPT: Final = 1_000
"""Certificates of clients whose owner is remembered: reading one takes a tenth of a millisecond."""


class OfListener:
    """`ListenerCertificates` of material.py."""

    def __init__(
        self, settings: TlsSettings, expects: NodeIdentity | None, purpose: Purpose, wall_ms: Callable[[], int]
    ) -> None:
        self.listener, self.settings, self.is_of_nodes = purpose.listener, settings, purpose.is_of_nodes
        self._purpose, self._wall_ms = purpose, wall_ms
        self.expects = expects
        """The node whose certificate this must be, once that is known."""
        self.refused = ""
        """The reason why what is in the files now was not taken."""
        self._seen: Mapping[str, bytes] = {}
        self._current: Material | None = None
        self._rules = PrincipalRules(settings.mapping_rules)
        self.owner = lru_cache(OWNERS_KEPT)(self._owner)

    @property
    def current(self) -> Material:
        assert self._current is not None, "read before it is used"
        return self._current

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.settings.keystore, self.settings.truststore)))

    def take(self, data: Mapping[str, bytes], now_ms: int) -> bool:
        """Use what is in the files; True if it is new. ConfigError, and no change, if it does not work."""
        if self._current is not None and data == self._seen:
            self.refused = ""  # it was put back
            return False
        path = self.settings.keystore
        try:
            keystore = read_keystore(data[path], now_ms)
            if self.is_of_nodes:
                self._check_identity(keystore.identity)
            path = self.settings.truststore
            truststore = read_truststore(data[path], now_ms) if path else None
            path = self.settings.keystore
            check_purpose(keystore, truststore, self._purpose, now_ms)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
        version = 1 if self._current is None else self._current.version + 1
        self._current, self._seen, self.refused = Material(version, keystore, truststore), data, ""
        return True

    def check_identity(self) -> None:
        """ConfigError if the certificate is not that of the expected node."""
        if self.is_of_nodes:
            try:
                self._check_identity(self.current.keystore.identity)
            except ConfigError as error:
                raise ConfigError(f"{self.settings.keystore}: {error}") from None

    def _check_identity(self, found: NodeIdentity | None) -> None:
        remedy = "make one with `penstock certs node`, which puts it there"
        if found is None:
            raise ConfigError(
                f"its certificate does not say of which node it is, and {self.listener} needs that: a URI like "
                f"{(self.expects or NodeIdentity('CLUSTER-ID', 1)).uri} among its names; {remedy}"
            )
        if self.expects is not None and found != self.expects:
            raise ConfigError(f"its certificate is that of {found}, but this is {self.expects}; {remedy}")

    def _owner(self, certificate: bytes) -> Owner:
        found = owner_of(certificate)
        return Owner(self._rules.of(found.distinguished_name), found.node, found.not_before_ms, found.not_after_ms)

    def why_not_now(self, certificate: bytes) -> str:
        owner, now_ms = self.owner(certificate), self._wall_ms()
        if now_ms >= owner.not_after_ms:
            return f"expired on {_moment(owner.not_after_ms)}"
        return f"is not valid before {_moment(owner.not_before_ms)}" if now_ms < owner.not_before_ms else ""

    def warnings(self) -> Iterator[str]:
        """A line for each thing by which clients may fail."""
        yield from client_warnings(self.current.keystore, self.current.truststore, self._purpose)

    def statistics(self) -> CertificateStatistics:
        keystore, truststore = self.current.keystore, self.current.truststore
        ends = None if truststore is None else truststore.not_after_ms
        return CertificateStatistics(self.listener, keystore.not_after_ms, ends, self.refused)

    def __repr__(self) -> str:
        return f"OfListener({self.listener}, {self._current})"


class NodeCertificates:
    """`Certificates` of material.py. The files are read when it is made; ConfigError if one does not work."""

    def __init__(
        self,
        config: NodeConfig,
        wall_ms: Callable[[], int],
        read: Callable[[str], bytes],
    ) -> None:
        """`read` gives the start of a file on the spot, or OSError."""
        self._node_id, self._wall_ms = config.node_id, wall_ms
        self._cluster_id = ""
        self.reloads = 0
        self.is_reading = False
        self._warned_day = -1
        self._listeners = {
            name: OfListener(config.tls(name), None, _purpose(config, name), wall_ms) for name in config.tls_listeners
        }
        data = {path: _read_now(path, read) for path in self._paths}
        for found in self._listeners.values():
            found.take({path: data[path] for path in found.paths}, wall_ms())

    @property
    def _paths(self) -> Sequence[str]:
        return sorted({path for found in self._listeners.values() for path in found.paths})

    def of(self, listener: str) -> OfListener | None:
        return self._listeners.get(listener)

    def node(self, node_id: int) -> NodeIdentity | None:
        return NodeIdentity(self._cluster_id, node_id) if self._cluster_id else None

    def belong_to(self, cluster_id: str) -> None:
        """The cluster is known; ConfigError if the nodes' listeners would show another node's certificate."""
        self._cluster_id = cluster_id
        for found in self._listeners.values():
            found.expects = NodeIdentity(cluster_id, self._node_id)
            found.check_identity()

    async def serve(self, files: AsyncFiles) -> None:
        """Looks at the files until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look(files)

    async def look(self, files: AsyncFiles) -> None:
        """Takes the files that have changed."""
        found: dict[str, bytes | OSError] = {}
        self.is_reading = True  # and stays True where the wait is cancelled: a thread still waits for the disk
        for path in self._paths:
            try:
                found[path] = await files.read_start(path, FILE_BYTES_MAX + 1)
            except OSError as error:
                found[path] = error
        self.is_reading = False
        for listener in self._listeners.values():
            self._take(listener, {path: found[path] for path in listener.paths})
        self._tell_of_ends()

    def _take(self, listener: OfListener, found: Mapping[str, bytes | OSError]) -> None:
        try:
            data = {path: _or_refused(path, content) for path, content in found.items()}
            is_new = listener.take(data, self._wall_ms())
        except ConfigError as error:
            self._refuse(listener, str(error))
        except Exception as error:  # a mistake of ours, or of a library: the next file must be looked at all the same
            self._refuse(listener, f"unexpected {type(error).__name__}: {' '.join(str(error).split())}")
        else:
            if is_new:
                self.reloads += 1
                _log.info("%s: new certificates are in force: %r", listener.listener, listener.current.keystore)

    def _refuse(self, listener: OfListener, why: str) -> None:
        if why != listener.refused:
            _log.error("%s: changed certificates were not taken, and the old ones go on: %s", listener.listener, why)
        listener.refused = why

    def _tell_of_ends(self) -> None:
        """Logs the warnings of certificates that end, once a day."""
        now_ms = self._wall_ms()
        if now_ms // DAY_MS != self._warned_day:
            self._warned_day = now_ms // DAY_MS
            for line in self.warnings():
                _log.warning("%s", line)

    def warnings(self) -> Iterator[str]:
        """A line for each certificate that ends soon, or that clients may refuse."""
        now_ms = self._wall_ms()
        for listener, found in self._listeners.items():
            yield from found.warnings()
            material = found.current
            ends = [(found.settings.keystore, material.keystore.not_after_ms)]
            if material.truststore is not None:
                ends.append((found.settings.truststore, material.truststore.not_after_ms))
            for path, end_ms in ends:
                if end_ms - now_ms < SOON_MS:
                    days = max(0, (end_ms - now_ms) // DAY_MS)
                    yield f"{listener}: certificates in {path} end in {days} days; renew them (penstock certs renew)"

    def statistics(self) -> Sequence[CertificateStatistics]:
        return [found.statistics() for found in self._listeners.values()]

    def __repr__(self) -> str:
        return f"NodeCertificates({', '.join(self._listeners)})"


def _purpose(config: NodeConfig, listener: str) -> Purpose:
    is_of_nodes = listener in (CONTROLLER_LISTENER, config.inter_broker_listener_name)
    advertised = config.advertised_listeners.get(listener)
    return Purpose(listener, is_of_nodes, () if is_of_nodes or advertised is None else (advertised.host,))


def _moment(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def _read_now(path: str, read: Callable[[str], bytes]) -> bytes:
    try:
        return read(path)
    except OSError as error:
        raise _unreadable(path, error) from None


def _or_refused(path: str, content: bytes | OSError) -> bytes:
    if isinstance(content, OSError):
        raise _unreadable(path, content)
    return content


def _unreadable(path: str, error: OSError) -> ConfigError:
    why = {FileNotFoundError: "there is no such file", IsADirectoryError: "is a directory; name the file itself"}
    return ConfigError(f"{path}: {why.get(type(error)) or f'cannot be read ({error.strerror}); check owner and mode'}")
