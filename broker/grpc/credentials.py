"""TLS at a node's gRPC listeners and on its connections to other nodes, by gRPC's own library (BoringSSL). An edge.

TLS 1.2 and 1.3 with the library's suites: forward secrecy and authenticated encryption only. A listener asks for the
certificates in force at every handshake, so new ones need no restart. A channel cannot change its own; who keeps
channels makes new ones (outgoing_calls.py). A listener asks clients for a certificate and insists on it, or does not
ask: the library has no third way.
"""

from __future__ import annotations

import grpc

from broker.config.keys.security_keys import ClientAuth
from broker.tls.material import ListenerCertificates, Material
from penstock.certs.node_identity import NodeIdentity


def server_credentials(certificates: ListenerCertificates) -> grpc.ServerCredentials:
    """One listener's, for as long as it is there."""
    current = certificates.current
    in_force = [current.version]

    def changed() -> grpc.ServerCertificateConfiguration | None:
        """Called by threads of gRPC's, at every handshake. None while nothing has changed: the library then keeps what
        it has made of the last ones."""
        now = certificates.current
        if now.version == in_force[0]:
            return None
        in_force[0] = now.version
        return _configuration(now)

    required = certificates.settings.client_auth is ClientAuth.REQUIRED
    return grpc.dynamic_ssl_server_credentials(_configuration(current), changed, required)


def _configuration(material: Material) -> grpc.ServerCertificateConfiguration:
    pair = (material.keystore.key, material.keystore.chain)
    return grpc.ssl_server_certificate_configuration([pair], root_certificates=material.roots)


def channel_credentials(material: Material) -> grpc.ChannelCredentials:
    """The credentials of a connection to another node: it shows this node's certificate and asks for the other's."""
    return grpc.ssl_channel_credentials(material.roots, material.keystore.key, material.keystore.chain)


def expecting(node: NodeIdentity | None) -> list[tuple[str, str]]:
    """The options of a channel that speaks to this node and to no other one, whatever host it is reached at."""
    return [] if node is None else [("grpc.ssl_target_name_override", node.dns_name)]
