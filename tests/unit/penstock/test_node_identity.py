"""The identity of a node as a URI: written and read, and everything else refused."""

from __future__ import annotations

import pytest

from penstock.certs.node_identity import NODE_ID_MAX, NodeIdentity, parse
from penstock.ids import system_ids

CLUSTER = "WuRhsPT0Qm-S_0lqnVZ80A"


def test_what_is_written_is_read() -> None:
    assert NodeIdentity(CLUSTER, 3).uri == f"penstock://{CLUSTER}/node/3"
    assert NodeIdentity(CLUSTER, 3).dns_name == "node-3.wurhspt0qm-s_0lqnvz80a.penstock"
    for node_id in (0, 1, 4_711, NODE_ID_MAX):
        for cluster_id in (CLUSTER, system_ids().new_id()):
            assert parse(NodeIdentity(cluster_id, node_id).uri) == NodeIdentity(cluster_id, node_id)
    assert str(NodeIdentity(CLUSTER, 3)) == f"node 3 of cluster {CLUSTER}"


@pytest.mark.parametrize(
    "uri",
    [
        "",
        f"penstock://{CLUSTER}/node/",
        f"penstock://{CLUSTER}/node/-1",
        f"penstock://{CLUSTER}/node/01",
        f"penstock://{CLUSTER}/node/1 ",
        f"penstock://{CLUSTER}/node/1\n",
        f"penstock://{CLUSTER}/node/1/2",
        f"penstock://{CLUSTER}/node/{NODE_ID_MAX + 1}",
        f"penstock://{CLUSTER}/node/٣",
        f"penstock://{CLUSTER}/client/1",
        f"penstock://{CLUSTER}x/node/1",
        "penstock:///node/1",
        f"Penstock://{CLUSTER}/node/1",
        f"spiffe://{CLUSTER}/node/1",
        f"x penstock://{CLUSTER}/node/1",
    ],
)
def test_nothing_else_is_a_node(uri: str) -> None:
    assert parse(uri) is None
