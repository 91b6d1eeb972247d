"""Reads a node's certificates at its start, and holds them beside its log dirs, which say whose node it is.

cryptography is loaded here, only where a listener has TLS. Not here: what is in the files, and their change while the
node runs (broker/tls/certificates.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from broker.config.node_config import NodeConfig
from broker.tls.material import FILE_BYTES_MAX
from penstock.clock import SystemClock
from penstock.errors import MetaPropertiesError

if TYPE_CHECKING:
    from broker.tls.certificates import NodeCertificates


def own_certificates(config: NodeConfig) -> NodeCertificates | None:
    """None for a node without TLS; ConfigError for a file that does not work, or is another node's."""
    if not config.tls_listeners:
        return None
    from broker.tls.certificates import NodeCertificates

    found = NodeCertificates(config, SystemClock().wall_ms, _start_of)
    if cluster_id := _formatted_for(config):
        found.belong_to(cluster_id)
    return found


def certificate_warnings(config: NodeConfig, found: NodeCertificates | None) -> Iterator[str]:
    """A line for each certificate that ends soon, and for each private key that others may read."""
    if found is None:
        return
    yield from found.warnings()
    for path in sorted({config.tls(name).keystore for name in config.tls_listeners}):
        status = Path(path).stat()
        mode = status.st_mode & 0o777
        # A Secret that Kubernetes mounts is root's, and the node reads it by its group: it cannot have mode 600.
        if mode & (0o077 if status.st_uid == os.geteuid() else 0o007):
            yield f"{path}: not only its owner may read this private key (mode {mode:o}); make the mode 600"


def _start_of(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(FILE_BYTES_MAX + 1)


def _formatted_for(config: NodeConfig) -> str:
    """The cluster of the log dirs; "" before they are formatted. What is wrong with them is found by others."""
    from storage.disk.file_system import OsFileSystem
    from storage.log_dirs.meta_properties import read_meta_properties

    for path in config.log_dirs:
        try:
            found = read_meta_properties(OsFileSystem(), path)
        except MetaPropertiesError:
            continue
        if found is not None:
            return found.cluster_id
    return ""
