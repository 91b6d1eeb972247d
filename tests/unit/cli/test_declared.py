"""`penstock apply` where the cluster refuses, hides or lacks something: what it says, and what it leaves undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.admin import NewTopic
from penstock.cli.declared.command import apply, stopping_is_said
from penstock.cli.declared.finding import find_state
from penstock.cli.declared.performing import AT_ONCE_MAX, AppliedSteps, passwords_of, perform, refused
from penstock.client.admin.admin import Admin
from penstock.client.admin.admin_types import TopicDescription, UserDescription
from penstock.client.admin.security.users import UserScramCredentialUpsertion
from penstock.declared.plan import PlanOptions, plan_apply
from penstock.declared.reading import read_declared
from penstock.declared.state import DeclaredKind, DeclaredState, DeclaredTopic
from penstock.errors import (
    ApiError,
    ClusterAuthorizationFailedError,
    ConfigError,
    InvalidConfigError,
    InvalidReplicationFactorError,
    NetworkError,
    SecurityDisabledError,
    TopicExistsError,
)
from penstock.messages.metadata import BrokerInfo, PartitionInfo
from penstock.messages.security.acl_rules import ACLS_MAX
from penstock.messages.security.acls import AclBinding, Operation, ResourceType

FILE = b"""
[topics.a]
[topics.b]
partitions = 2
[topics.old]
partitions = 3
config = { "retention.ms" = 1 }
[users.anna]
password-env = "ANNA"
[[acls]]
principal = "User:anna"
operations = ["Read", "Write"]
topic = "a"
[[quotas]]
user = "anna"
producer_byte_rate = 5
"""
OLD = DeclaredState(topics={"old": DeclaredTopic("old", 1, 1)})


class FakeAdmin:
    """Stands for an Admin: notes what it is asked for, and refuses what it is told to."""

    def __init__(self, **refuses: Exception) -> None:
        self.refuses, self.done = refuses, list[str]()
        self.there: list[TopicDescription] = []
        self.requests = 0

    def _ask(self, what: str) -> None:
        if what in self.refuses:
            raise self.refuses[what]

    def create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> dict[str, ApiError | None]:
        self._ask("create_topics")
        self.done += [f"{'check' if validate_only else 'topic'} {one.name} {one.partitions}" for one in topics]
        return {one.name: cast(ApiError | None, self.refuses.get(one.name)) for one in topics}

    def alter_broker_config(
        self, node_id: int | None, changes: Mapping[str, Any], *, validate_only: bool = False
    ) -> None:
        self.done += [] if validate_only else [f"broker {node_id} {changes}"]

    def describe_topics(self) -> list[TopicDescription]:
        return self.there

    def create_partitions_of_topics(
        self, totals: Mapping[str, int], *, validate_only: bool = False
    ) -> dict[str, ApiError | None]:
        self._ask("create_partitions_of_topics")
        self.requests += 1
        self.done += [] if validate_only else [f"partitions {name} {total}" for name, total in totals.items()]
        return dict.fromkeys(totals)

    def delete_topics(self, names: Sequence[str], *, missing_ok: bool = False) -> dict[str, ApiError | None]:
        assert missing_ok
        self.requests += 1
        self.done += [f"gone {name}" for name in names]
        return dict.fromkeys(names)

    def check_may_alter_cluster(self) -> None:
        self._ask("check_may_alter_cluster")

    def alter_topic_configs(
        self, changes: Mapping[str, Mapping[str, Any]], *, validate_only: bool = False
    ) -> dict[str, ApiError | None]:
        self._ask("alter_topic_configs")
        self.requests += 1
        self.done += [] if validate_only else [f"config {name} {values}" for name, values in changes.items()]
        return {name: cast(ApiError | None, self.refuses.get(f"config {name}")) for name in changes}

    def create_acls(self, acls: Sequence[AclBinding]) -> dict[AclBinding, ApiError | None]:
        self._ask("create_acls")
        self.done.append(f"acls {len(acls)}")
        return dict.fromkeys(acls)

    def alter_client_quotas(
        self, quotas: Mapping[Any, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> dict[Any, ApiError | None]:
        self._ask("alter_client_quotas")
        self.done += [] if validate_only else [f"quotas {len(quotas)}"]
        return dict.fromkeys(quotas, cast(ApiError | None, self.refuses.get("quota")))

    def alter_user_scram_credentials(self, changes: Sequence[Any]) -> dict[str, ApiError | None]:
        self.done += [f"{one.user} {one.mechanism} {one.password}" for one in changes]
        assert all(isinstance(one, UserScramCredentialUpsertion) for one in changes)
        return {one.user: None for one in changes}


def applied(admin: FakeAdmin, found: DeclaredState = OLD) -> AppliedSteps:
    plan = plan_apply(read_declared("f", FILE), found)
    assert not plan.impossible
    return perform(cast(Admin, admin), plan, {"anna": "secret"}, lambda count: None)


def test_steps_are_done_in_their_order_many_of_one_kind_at_once() -> None:
    admin = FakeAdmin()
    assert len(applied(admin).done) == 8 and admin.done == [
        "topic a -1",
        "topic b 2",
        "partitions old 3",
        "config old {'retention.ms': '1'}",
        "quotas 1",
        "acls 2",
        "anna SCRAM-SHA-256 secret",
        "anna SCRAM-SHA-512 secret",
    ]


def test_it_ends_at_the_first_step_that_is_refused_and_says_which_were_done() -> None:
    admin = FakeAdmin(b=TopicExistsError("somebody was faster"))
    ended = applied(admin)
    assert [step.name for step in ended.done] == ["a"]
    assert [(step.name, str(error)) for step, error in ended.failed] == [("b", "somebody was faster")]
    assert not any(line.startswith("partitions") for line in admin.done)


def test_a_topic_that_an_attempt_without_an_answer_has_made_is_done() -> None:
    admin, one = FakeAdmin(b=TopicExistsError("it is there")), PartitionInfo(0, 1, 0, 0, (1,), (1,))
    admin.there = [TopicDescription("b", "id", (one,))]
    assert applied(admin).failed, "it has one partition, and two are wanted"
    admin.there = [TopicDescription("b", "id", (one, replace(one, partition=1)))]
    assert not applied(admin).failed


def test_an_apply_that_is_stopped_in_the_middle_says_that_it_can_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    class StoppedAdmin(FakeAdmin):
        def create_partitions_of_topics(
            self, totals: Mapping[str, int], *, validate_only: bool = False
        ) -> dict[str, ApiError | None]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), stopping_is_said():
        applied(StoppedAdmin())
    assert "the same command shows those that are left" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["create_topics", "create_partitions_of_topics", "alter_topic_configs", "create_acls"])
def test_a_request_that_fails_as_a_whole_ends_it_too(what: str) -> None:
    admin = FakeAdmin(**{what: NetworkError("gone")})
    ended = applied(admin)
    assert len(ended.failed) == 1 and "anna" not in " ".join(admin.done)


def test_what_the_controller_would_refuse_is_found_without_a_change() -> None:
    bad_key, bad_value = InvalidConfigError("unknown key"), InvalidConfigError("bad value")
    no_right = ClusterAuthorizationFailedError("ALTER_CONFIGS on the cluster")
    for refusals in (
        {"config old": bad_value, "quota": no_right},
        {"alter_topic_configs": bad_value, "alter_client_quotas": no_right},
    ):
        admin = FakeAdmin(a=bad_key, **refusals)
        found = refused(cast(Admin, admin), plan_apply(read_declared("f", FILE), OLD))
        assert [(one.name, one.why) for one in found] == [
            ("a", "unknown key"),
            ("old", "bad value"),
            ("user 'anna'", "ALTER_CONFIGS on the cluster"),
        ]
        assert all(line.startswith("check") for line in admin.done)


def _many(line: str) -> bytes:
    return "".join(f"[topics.t{number}]\n{line}\n" for number in range(2_000)).encode()


@pytest.mark.parametrize(
    ("file", "checks"),
    [
        pytest.param(_many('config = { "retention.ms" = 5 }'), True, id="configurations"),
        pytest.param(_many("partitions = 3"), True, id="partitions"),
        pytest.param(b"", False, id="deletions"),
    ],
)
def test_changes_of_many_topics_are_checked_and_done_in_few_requests(file: bytes, checks: bool) -> None:
    there = {f"t{number}": DeclaredTopic(f"t{number}", 1, 1) for number in range(2_000)}
    prune = frozenset({DeclaredKind.TOPICS} if not file else ())
    plan = plan_apply(read_declared("f", file), DeclaredState(there), PlanOptions(prune))
    admin = FakeAdmin()
    assert not refused(cast(Admin, admin), plan)
    assert len(perform(cast(Admin, admin), plan, {}, lambda count: None).done) == 2_000
    assert admin.requests == (1 + checks) * 2_000 // AT_ONCE_MAX


def test_who_may_not_change_users_and_acls_is_told_before_anything_is_changed() -> None:
    no_right = ClusterAuthorizationFailedError("ALTER on the cluster")
    admin = FakeAdmin(check_may_alter_cluster=no_right)
    found = refused(cast(Admin, admin), plan_apply(read_declared("f", FILE), OLD))
    assert [(one.kind, one.name, one.why) for one in found] == [
        (DeclaredKind.ACLS, "*", "ALTER on the cluster"),
        (DeclaredKind.USERS, "*", "ALTER on the cluster"),
    ]
    without = plan_apply(read_declared("f", b"[topics.a]"), OLD)
    assert not refused(cast(Admin, admin), without), "nobody is asked for a right that the plan does not need"


def test_users_and_acls_that_the_controller_would_refuse_are_found_in_the_plan() -> None:
    file = """
[users.ANONYMOUS]
password-env = "A"
[users."a\\tb"]
password-env = "A"
[users.good]
password-env = "A"
[[acls]]
principal = "Group:g"
operations = ["Read"]
topic = "t"
[[acls]]
principal = "User:a"
operations = ["ClusterAction"]
topic = "t"
[[acls]]
principal = "User:b"
operations = ["Read"]
topic = "t"
host = "::ffff:10.0.0.7"
"""
    plan = plan_apply(read_declared("f", file.encode()), DeclaredState())
    seen = {
        (DeclaredKind.ACLS, "User:a"): "there is no operation ClusterAction on a topic",
        (DeclaredKind.ACLS, "User:b"): "write the address '::ffff:10.0.0.7' as '10.0.0.7'",
        (DeclaredKind.ACLS, "Group:g"): "'Group:g' is no principal",
        (DeclaredKind.USERS, "ANONYMOUS"): "ANONYMOUS is who has shown no certificate",
        (DeclaredKind.USERS, "a\tb"): "a user's name must not have control characters",
    }
    assert {(one.kind, one.name) for one in plan.impossible} == seen.keys()
    assert all(one.why.startswith(seen[one.kind, one.name]) for one in plan.impossible)
    assert [step.name for step in plan.steps] == ["good"]


def test_more_acls_than_a_cluster_keeps_are_not_begun() -> None:
    def of(count: int) -> frozenset[AclBinding]:
        return frozenset(
            AclBinding(ResourceType.TOPIC, f"t{number}", "User:a", Operation.READ) for number in range(count)
        )

    there = DeclaredState(acls=of(2))
    (one,) = plan_apply(DeclaredState(acls=of(ACLS_MAX + 1)), there).impossible
    assert one.why.startswith(f"{ACLS_MAX - 1} ACLs come to 2, and a cluster keeps at most {ACLS_MAX}")
    assert not plan_apply(DeclaredState(acls=of(ACLS_MAX)), there).impossible


def test_too_few_brokers_are_found_before_a_change_unless_the_file_changes_the_brokers() -> None:
    few = InvalidReplicationFactorError("broker 2 is cordoned")
    admin = cast(Admin, FakeAdmin(a=few, create_partitions_of_topics=few))
    assert [one.name for one in refused(admin, plan_apply(read_declared("f", FILE), OLD))] == ["a", "old"]
    ends_cordon = FILE + b'[brokers.2]\nconfig = { "cordoned.log.dirs" = "" }'
    assert not refused(admin, plan_apply(read_declared("f", ends_cordon), OLD))


def test_rates_that_differ_do_not_look_alike_in_a_plan() -> None:
    quota = b"[[quotas]]\nuser = 'a'\nproducer_byte_rate = "
    before, after = (read_declared("f", quota + rate) for rate in (b"1234567", b"1234568.5"))
    (step,) = plan_apply(after, before).steps
    assert step.what == "producer_byte_rate = 1234568.5 (was 1234567)"


@pytest.mark.parametrize("content", [b"", b"# users are not in this file: no right\n", b"[topics]\n"])
def test_a_file_that_declares_nothing_prunes_nothing(tmp_path: Path, content: bytes) -> None:
    """`penstock export … | penstock apply - --prune topics --yes`, where the export failed."""
    file = tmp_path / "cluster.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="declares nothing, so --prune would delete everything of topics, acls"):
        apply(str(file), ["topics", "acls"], yes=True, bootstrap="127.0.0.1:1")


def test_nobody_prunes_its_own_user_and_rights() -> None:
    acls = b"".join(
        b'[[acls]]\nprincipal = "User:%s"\noperations = ["Alter"]\ncluster = true\npermission = "%s"\n' % pair
        for pair in ((b"ops", b"allow"), (b"ops", b"deny"), (b"bob", b"allow"))
    )
    found = read_declared("f", acls + b"[users.ops]\n[users.bob]\n[users.admin]\n")
    prune = frozenset((DeclaredKind.USERS, DeclaredKind.ACLS))
    plan = plan_apply(DeclaredState(), found, PlanOptions(prune, caller="ops"))
    assert [(one.kind, one.name) for one in plan.impossible] == [("users", "ops"), ("acls", "User:ops")]
    assert [one.name for one in plan.deletions] == ["admin", "bob", "User:bob", "User:ops"]
    assert not plan_apply(found, found, PlanOptions(prune, caller="ops")).steps


def test_passwords_come_from_the_environment_or_a_file_beside_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cluster.toml"
    by_env = plan_apply(read_declared("f", b'[users.a]\npassword-env = "A_PASSWORD"'), DeclaredState())
    by_file = plan_apply(read_declared("f", b'[users.a]\npassword-file = "a.secret"'), DeclaredState())
    with pytest.raises(ConfigError, match=r"users\.a\.password-env: A_PASSWORD is not in the environment"):
        passwords_of(by_env, str(file))
    with pytest.raises(ConfigError, match=r"users\.a\.password-file: .*a.secret: No such file"):
        passwords_of(by_file, str(file))
    monkeypatch.setenv("A_PASSWORD", "of-env")
    (tmp_path / "a.secret").write_text("of-file\nmore\n")
    assert passwords_of(by_env, str(file)) == {"a": "of-env"} and passwords_of(by_file, str(file)) == {"a": "of-file"}
    monkeypatch.setenv("A_PASSWORD", "")
    with pytest.raises(ConfigError, match="gives no password"):
        passwords_of(by_env, str(file))


def test_a_password_of_a_user_that_is_there_is_set_only_when_that_is_asked_for() -> None:
    wanted = read_declared("f", b'[users.a]\nmechanisms = ["SCRAM-SHA-256"]\npassword-env = "A"')
    found = replace(wanted, users={"a": replace(wanted.users["a"], password_env="")})
    assert plan_apply(wanted, found).is_empty
    assert len(plan_apply(wanted, found, PlanOptions(set_passwords=True)).steps) == 1


class HiddenAdmin:
    """Stands for an Admin of a caller who may see little, of a cluster whose broker 2 is away and 3 is silent."""

    def describe_topics(self) -> list[Any]:
        return []

    def describe_broker_config(self, broker_id: int | None) -> dict[str, Any]:
        if broker_id == 3:
            raise NetworkError("silent")
        sources = {None: "DYNAMIC_DEFAULT_BROKER_CONFIG", 1: "DYNAMIC_BROKER_CONFIG"}
        entries = [("a", sources.get(broker_id, "")), ("b", "STATIC_BROKER_CONFIG")]
        return {name: SimpleNamespace(value="1", source=source) for name, source in entries}

    def describe_cluster(self) -> Any:
        return SimpleNamespace(brokers=tuple(BrokerInfo(id_, "h", 1, fenced=id_ == 2) for id_ in (1, 2, 3)))

    def describe_user_scram_credentials(self) -> dict[str, UserDescription]:
        raise ClusterAuthorizationFailedError("Describe on the cluster")

    def describe_acls(self) -> tuple[AclBinding, ...]:
        raise SecurityDisabledError("no authorizer")

    def describe_client_quotas(self) -> dict[Any, Any]:
        return {}


def test_what_may_not_be_seen_or_does_not_answer_is_noted_and_nothing_is_concluded_from_it() -> None:
    found = find_state(cast(Admin, HiddenAdmin()), frozenset(DeclaredKind))
    assert found.unseen == {DeclaredKind.USERS: "Describe on the cluster", DeclaredKind.ACLS: "no authorizer"}
    assert found.configs == {None: {"a": "1"}, 1: {"a": "1"}}
    assert found.unseen_brokers == {2: "the broker is away", 3: "silent"}
    pruned = plan_apply(DeclaredState(), found, PlanOptions(frozenset(DeclaredKind)))
    assert not pruned.steps and {one.kind for one in pruned.impossible} == {DeclaredKind.USERS, DeclaredKind.ACLS}
    wanted = read_declared("f", b'[users.a]\n[brokers.2]\nconfig = { "x" = 1 }')
    assert [one.name for one in plan_apply(wanted, found).impossible] == ["*", "broker 2"]
