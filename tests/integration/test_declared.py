"""Real nodes: brokers and log dirs that are cordoned, a drain that cordons, a cluster that is what a file declares."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Admin
from penstock.admin import NewTopic
from penstock.errors import InvalidReplicationFactorError
from penstock.security import UserScramCredentialUpsertion
from penstock.testing import Cluster
from tests.integration.test_log_dir_moves import several_log_dirs
from tests.support.command_line import penstock
from tests.support.waiting import wait_until

PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as running:
        yield running


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap) as client:
        yield client


def run(cluster: Cluster, *words: object, stdin: str = "", code: int = 0) -> subprocess.CompletedProcess[bytes]:
    ended = penstock(*words, stdin=stdin.encode(), bootstrap=cluster.bootstrap)
    assert ended.returncode == code, (ended.stdout, ended.stderr)
    return ended


def printed(ended: subprocess.CompletedProcess[bytes]) -> Any:
    return json.loads(ended.stdout)


def brokers_of(admin: Admin, topic: str) -> set[int]:
    return {replica for one in admin.describe_topic(topic).partitions for replica in one.replicas}


# -- cordon ------------------------------------------------------------------------------------------------------------


def test_a_broker_is_cordoned_and_uncordoned_also_while_it_is_away(cluster: Cluster, admin: Admin) -> None:
    run(cluster, "brokers", "cordon", 2, "--dry-run")
    assert not any(one.broker.cordoned for one in admin.describe_brokers())
    run(cluster, "brokers", "cordon", 2)
    admin.create_topic("cordoned", 6, 2)
    assert brokers_of(admin, "cordoned") == {0, 1}
    with pytest.raises(InvalidReplicationFactorError, match="broker 2 is cordoned"):
        admin.create_topic("too-many", 1, 3)
    assert [row["cordoned"] for row in printed(run(cluster, "brokers", "list", "--json"))] == [False, False, True]
    assert b"node 2 gets no new replicas" in run(cluster, "cluster", "health").stdout
    run(cluster, "brokers", "uncordon", 2)
    admin.create_topic("uncordoned", 6, 3)
    assert brokers_of(admin, "uncordoned") == {0, 1, 2}
    before = [one.broker.broker_epoch for one in admin.describe_brokers()]
    with cluster.down(2):
        run(cluster, "brokers", "cordon", 2)
    assert [one.broker.cordoned for one in admin.describe_brokers()] == [False, False, True]
    epochs = [one.broker.broker_epoch for one in admin.describe_brokers()]
    assert epochs[:2] == before[:2] and epochs[2] > before[2], "each start of a process is another registration"
    cluster.restart(cluster.controller())
    admin.create_topic("after-a-failover", 6, 2)
    assert brokers_of(admin, "after-a-failover") == {0, 1}
    with cluster.down(2):
        run(cluster, "brokers", "uncordon", 2)
        assert not any(one.broker.cordoned for one in admin.describe_brokers())


def test_a_drain_cordons_and_nothing_new_is_placed_there(cluster: Cluster, admin: Admin) -> None:
    admin.create_topic("drained", 6, 2)
    for topic in admin.describe_topics():
        if topic.replication_factor == 3:
            admin.delete_topic(topic.name)
    run(cluster, "brokers", "drain", 1)
    assert brokers_of(admin, "drained") == {0, 2}
    admin.create_topic("while-drained", 6, 2)
    assert brokers_of(admin, "while-drained") == {0, 2}
    run(cluster, "brokers", "uncordon", 1)


def test_a_log_dir_is_cordoned_by_its_path_at_run_time_and_in_the_file(tmp_path: Path) -> None:
    with several_log_dirs(tmp_path, "ab") as (cluster, (a, b)), Admin(cluster.bootstrap) as admin:

        def replicas(path: str) -> int:
            dirs = {one.path: one for one in admin.describe_log_dirs()[0].log_dirs}
            return len(dirs[path].replicas)

        run(cluster, "brokers", "cordon", 0, "--log-dir", b)
        admin.create_topic("t", 8)
        wait_until(lambda: (replicas(a), replicas(b)) == (8, 0))
        assert [one.is_cordoned for one in admin.describe_log_dirs()[0].log_dirs] == [False, True]
        refused = run(cluster, "log-dirs", "move", f"t-0={b}", "--broker", 0, code=1)
        assert f"{b} is cordoned".encode() in refused.stderr
        refused = run(cluster, "brokers", "cordon", 0, "--log-dir", "/nowhere", code=2)
        assert f"broker 0 has {a}, {b}".encode() in refused.stderr
        assert printed(run(cluster, "brokers", "cordon", 0, "--log-dir", a, "--json"))["cordoned.log.dirs"] == "*"
        with pytest.raises(InvalidReplicationFactorError, match="broker 0 is cordoned"):
            admin.create_topic("u")
        assert printed(run(cluster, "brokers", "uncordon", 0, "--log-dir", b, "--json"))["cordoned.log.dirs"] == a
        admin.create_topic("u", 3)
        wait_until(lambda: (replicas(a), replicas(b)) == (8, 3))
        run(cluster, "brokers", "uncordon", 0)
        config = cluster.config_path(0)
        cluster.stop(0)
        config.write_text(f'"cordoned.log.dirs" = ["{a}", "{b}"]\n' + config.read_text())
        cluster.start(0)
        wait_until(lambda: admin.describe_brokers()[0].broker.cordoned)
        with pytest.raises(InvalidReplicationFactorError, match="broker 0 is cordoned"):
            admin.create_topic("v")
        run(cluster, "brokers", "uncordon", 0)
        admin.create_topic("v")


def test_what_is_not_there_is_no_error_where_that_is_said(cluster: Cluster) -> None:
    for words in (("brokers", "unregister", 77), ("users", "delete", "nobody"), ("topics", "delete", "nothing")):
        assert run(cluster, *words, code=1).stderr
        ended = run(cluster, *words, "--if-exists")
        assert b"there is nothing to" in ended.stdout + ended.stderr
        run(cluster, *words, "--if-exists", "--json")
        run(cluster, *words, "--if-exists", "--dry-run")


# -- apply and export --------------------------------------------------------------------------------------------------

FILE = """
[topics.orders]
partitions = 4
replication-factor = 2
config = { "retention.ms" = 86400000 }

[topics.totals]
partitions = 1
config = { "cleanup.policy" = "compact" }

[brokers.default]
config = { "log.retention.ms" = 604800000 }

[brokers.1]
config = { "logger.level" = ["info", "broker.replication=debug"] }

[users.anna]
mechanisms = ["SCRAM-SHA-256"]
password-env = "ANNA_PASSWORD"

[[quotas]]
user = "anna"
producer_byte_rate = 1000000
"""


def test_a_file_is_applied_once_and_an_export_has_nothing_to_do(cluster: Cluster, admin: Admin, tmp_path: Path) -> None:
    os.environ["ANNA_PASSWORD"] = PASSWORD
    shown = run(cluster, "apply", "-", "--dry-run", "--json", stdin=FILE, code=3)
    assert [one["act"] for one in printed(shown)["steps"]].count("create") == 4 and "orders" not in admin.list_topics()
    done = printed(run(cluster, "apply", "-", "--json", stdin=FILE))
    assert all(one["done"] for one in done["steps"]) and len(done["steps"]) == 6
    assert b"nothing to do" in run(cluster, "apply", "-", stdin=FILE).stdout
    orders = admin.describe_topic("orders")
    assert (orders.partition_count, orders.replication_factor) == (4, 2)
    assert orders.config == {"retention.ms": "86400000"}
    exported = run(cluster, "export").stdout
    (tmp_path / "cluster.toml").write_bytes(exported)
    assert PASSWORD.encode() not in exported and b"[topics.orders]" in exported
    assert b"nothing to do" in run(cluster, "apply", tmp_path / "cluster.toml", "--dry-run").stdout
    only = run(cluster, "export", "--kind", "topics").stdout
    assert b"[topics.orders]" in only and b"[users" not in only and b"[brokers" not in only
    del os.environ["ANNA_PASSWORD"]


def test_what_cannot_be_done_is_said_before_anything_is_changed(cluster: Cluster, admin: Admin) -> None:
    admin.create_topic("there", 3)
    file = "[topics.there]\npartitions = 2\nreplication-factor = 2\n[topics.new]\n[users.bob]\n"
    ended = run(cluster, "apply", "-", stdin=file, code=4)
    for words in (b"partitions cannot be removed", b"reassignments create", b"there is no such user"):
        assert words in ended.stderr
    assert "new" not in admin.list_topics()
    ended = run(cluster, "apply", "-", stdin='[topics.bad]\nconfig = { "retention.ns" = 1 }\n[topics.new]', code=4)
    assert b"retention.ns" in ended.stderr and "new" not in admin.list_topics()
    ended = run(cluster, "apply", "-", stdin='[brokers.7]\nconfig = { "logger.format" = "json" }', code=4)
    assert b"broker 7 is not registered" in ended.stderr


def test_what_is_not_named_stays_without_prune(cluster: Cluster, admin: Admin) -> None:
    admin.create_topic("stays")
    names = admin.list_topics()
    file = "".join(f"[topics.{name}]\n" for name in names if name != "stays" and not name.startswith("__"))
    assert b"nothing to do" in run(cluster, "apply", "-", stdin=file).stdout
    ended = run(cluster, "apply", "-", "--prune", "topics", stdin=file, code=2)
    assert b"add --yes" in ended.stderr and "stays" in admin.list_topics()
    shown = run(cluster, "apply", "-", "--prune", "topics", "--dry-run", stdin=file, code=3)
    assert b"ALL THEIR RECORDS" in shown.stdout
    run(cluster, "apply", "-", "--prune", "topics", "--yes", stdin=file)
    assert admin.list_topics() == [name for name in names if name != "stays"]


def test_with_one_broker_away_the_rest_is_applied_and_the_export_says_what_it_lacks(
    cluster: Cluster, admin: Admin
) -> None:
    with cluster.down(2):
        wait_until(lambda: any(one.broker.fenced for one in admin.describe_brokers()))
        run(cluster, "apply", "-", stdin="[topics.away]\npartitions = 3\nreplication-factor = 3")
        exported = run(cluster, "export")
        assert b"broker 2: left out: the broker is away" in exported.stderr
        assert b"# the configuration of broker 2 is not in this file" in exported.stdout
        ended = run(cluster, "apply", "-", stdin='[brokers.2]\nconfig = { "logger.format" = "json" }', code=4)
        assert b"the broker is away" in ended.stderr


def test_many_topics_are_created_in_few_requests(cluster: Cluster, admin: Admin) -> None:
    names = [f"many-{number:03}" for number in range(300)]
    run(cluster, "apply", "-", stdin="".join(f"[topics.{name}]\nreplication-factor = 1\n" for name in names))
    assert set(names) <= set(admin.list_topics())
    results = admin.create_topics([NewTopic(name) for name in ("many-000", "another")])
    assert results["another"] is None and results["many-000"] is not None


def test_a_secured_cluster_is_exported_and_applied(tmp_path: Path) -> None:
    with Cluster(nodes=1, secure=True) as cluster, Admin(cluster.bootstrap, **cluster.client_options) as admin:
        who = options(cluster)
        (tmp_path / "secret").write_text(PASSWORD + "\n")
        file = tmp_path / "cluster.toml"
        file.write_text(
            '[users.anna]\npassword-file = "secret"\n'
            '[[acls]]\nprincipal = "User:anna"\noperations = ["Read", "Write"]\ntopic = "a"\npattern = "prefixed"\n'
            '[[acls]]\nprincipal = "User:bob"\noperations = ["All"]\ncluster = true\npermission = "deny"\n'
        )
        run(cluster, "apply", file, *who)
        assert len(admin.describe_acls()) >= 3 and "anna" in admin.describe_user_scram_credentials()
        file.write_bytes(run(cluster, "export", *who).stdout)
        assert b"nothing to do" in run(cluster, "apply", file, "--dry-run", *who).stdout
        run(cluster, "apply", "-", "--prune", "acls", "--yes", *who, stdin="[users.anna]\n")
        assert not admin.describe_acls()


def test_least_rights_are_enough_for_what_a_file_names_and_an_export_says_what_they_hide(tmp_path: Path) -> None:
    with Cluster(nodes=1, secure=True) as cluster, Admin(cluster.bootstrap, **cluster.client_options) as admin:
        (tmp_path / "secret").write_text(PASSWORD)
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion("tom", PASSWORD)])
        run(
            cluster,
            "acls",
            "create",
            "User:tom",
            "--role",
            "topic-admin",
            "--topic",
            "team-",
            "--prefixed",
            *options(cluster),
        )
        admin.create_topic("secret")
        who = [
            "--tls-ca",
            cluster.client_options["tls_ca"],
            "--username",
            "tom",
            "--password-file",
            tmp_path / "secret",
        ]
        file = '[topics.team-a]\npartitions = 2\nconfig = { "retention.ms" = 5 }\n'
        run(cluster, "apply", "-", *who, stdin=file)
        assert b"nothing to do" in run(cluster, "apply", "-", *who, stdin=file).stdout
        exported = run(cluster, "export", *who)
        assert b"[topics.team-a]" in exported.stdout and b"[topics.secret]" not in exported.stdout
        for kind in (b"users", b"acls", b"quotas", b"configs"):
            assert kind + b": left out: " in exported.stderr
        only = run(cluster, "export", "--kind", "topics", *who).stdout
        run(cluster, "apply", "-", "--prune", "topics", "--yes", *who, stdin=only.decode())
        assert "secret" in admin.list_topics()
        ended = run(cluster, "apply", "-", *who, stdin="[topics.team-b]\n[users.anna]", code=4)
        assert b"Describe on the cluster" in ended.stderr and "team-b" not in admin.list_topics()
        run(cluster, "apply", "-", *who, stdin="[topics.foreign]", code=4)


def options(cluster: Cluster) -> list[str]:
    words: list[str] = []
    for key, value in cluster.client_options.items():
        words += [f"--{key.replace('_', '-')}", value]
    return words
