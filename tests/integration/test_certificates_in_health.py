"""A node that runs, a certificate of no use, and one that ends soon: its log and the health of the cluster say so."""

from __future__ import annotations

from pathlib import Path

from cryptography.x509.oid import ExtendedKeyUsageOID

from penstock import Admin
from penstock.client.admin.admin_types import HealthCheck
from penstock.testing import Cluster
from tests.support.certificates import HOSTS, TestCa
from tests.support.waiting import wait_until


def check(cluster: Cluster) -> HealthCheck:
    with Admin(cluster.bootstrap, **cluster.client_options) as admin:
        return next(one for one in admin.cluster_health().checks if one.name == "certificates")


def test_a_renewal_for_servers_alone_is_refused_with_the_reason_and_one_that_ends_soon_is_named() -> None:
    with Cluster(nodes=1, secure=True) as cluster:
        directory = Path(str(cluster.client_options["tls_ca"])).parent
        keystore, ca = directory / "node-0.pem", TestCa.of_files(directory / "ca.pem", directory / "ca.key")
        assert check(cluster).status == "ok" and "the first ends in 364 days" in check(cluster).summary

        def put(data: bytes) -> None:
            written = directory / "next.pem"
            written.write_bytes(data)
            written.chmod(0o600)
            written.rename(keystore)

        of_node = {"cluster_id": cluster.cluster_id, "hosts": HOSTS}
        put(ca.node(0, **of_node, uses=(ExtendedKeyUsageOID.SERVER_AUTH,)))
        wait_until(lambda: check(cluster).status == "warning")
        refused = "\n".join(check(cluster).details)
        reason = "lacks the extended key usage clientAuth, which INTERNAL needs"
        assert "INTERNAL: a changed file is refused" in refused and reason in refused
        assert reason in cluster.log_path(0).read_text()
        assert "KAFKA: a changed file" not in refused, "servers alone are enough where only clients connect"

        put(ca.node(0, days=9.5, **of_node))
        wait_until(lambda: "refused" not in "\n".join(check(cluster).details))
        ends = check(cluster)
        assert ends.status == "warning" and "node 0, INTERNAL: the certificate ends in 9 days" in ends.details
        assert "penstock certs renew" in ends.remedy
