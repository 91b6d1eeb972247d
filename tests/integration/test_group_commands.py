"""`penstock groups` and `penstock consume --group` on real nodes, also while a coordinator dies."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.testing import Cluster
from tests.support.command_line import penstock
from tests.support.waiting import wait_until

PLACES = [TopicPartition("orders", number) for number in range(2)]
RECORDS = 10


def run(cluster: Cluster, *arguments: object) -> tuple[int, str, str]:
    """Exit code, output and errors."""
    done = penstock(*arguments, bootstrap=cluster.bootstrap)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def described(cluster: Cluster) -> dict[str, Any]:
    code, out, err = run(cluster, "groups", "describe", "shop", "--json")
    assert code == 0, err
    (group,) = json.loads(out)
    return dict(group)


def lag_shown(cluster: Cluster, node: int) -> bool:
    """True if the node shows the lag of both partitions of the group."""
    with urllib.request.urlopen(cluster.metrics_url(node), timeout=60) as answer:
        text = answer.read().decode()
    return (
        f'penstock_group_lag{{group="shop"}} {2 * RECORDS}.0' in text
        and text.count("penstock_group_partition_lag{") == 2
    )


@pytest.mark.penstock(nodes=3)
def test_a_group_is_seen_read_in_moved_and_deleted_while_its_coordinator_dies(penstock_cluster: Cluster) -> None:
    cluster = penstock_cluster
    with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        admin.create_topic("orders", 2, 3)
        for place in PLACES:
            producer.send_many("orders", [b"%d" % number for number in range(RECORDS)], partition=place.partition)
        producer.flush()
    code, out, err = run(cluster, "consume", "orders", "--group", "shop", "--from-beginning", "-n", 2 * RECORDS)
    assert (code, sorted(out.split())) == (0, sorted([str(number) for number in range(RECORDS)] * 2)), err
    assert [one["lag"] for one in described(cluster)["partitions"]] == [0, 0]

    with Consumer(cluster.bootstrap, group_id="shop", client_id="anna") as anna:
        anna.subscribe(["orders"])
        wait_until(lambda: bool(anna.poll(timeout_ms=200)) or len(anna.assignment()) == 2)
        group = described(cluster)
        (member,) = group["members"]
        assert member["client_id"] == "anna" and len(member["assignment"]) == 2 and group["state"] == "Stable"
        for arguments in (("reset-offsets", "shop", "--topic", "orders", "--to-earliest"), ("delete", "shop")):
            code, _, err = run(cluster, "groups", *arguments)
            assert code == 1 and "NON_EMPTY_GROUP: group 'shop' is not empty: it has 1 member: " in err
            assert f"{member['member_id']} (client 'anna' at /127.0.0.1)" in err

    cluster.kill(group["coordinator_id"])
    code, out, err = run(cluster, "groups", "reset-offsets", "shop", "--topic", "orders", "--to-earliest", "--json")
    assert code == 0, err
    assert [(one["before"], one["after"]) for one in json.loads(out)] == [(RECORDS, 0)] * 2
    now = described(cluster)
    assert now["coordinator_id"] != group["coordinator_id"]
    assert [one["lag"] for one in now["partitions"]] == [RECORDS] * 2
    wait_until(lambda: lag_shown(cluster, now["coordinator_id"]))
    assert run(cluster, "groups", "delete", "shop") == (0, "deleted shop\n", "")
    assert "shop" not in run(cluster, "groups", "list")[1]
    code, out, err = run(cluster, "groups", "describe", "shop", "never", "--json")
    assert code == 1 and [one["error"]["name"] for one in json.loads(out)] == ["GROUP_ID_NOT_FOUND"] * 2
