"""`penstock console` on a secured cluster of three nodes: its pages say what the command line says, and a user sees
what the ACLs give that user."""

from __future__ import annotations

import dataclasses
import html
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.console.change_table import CHANGES
from penstock.console.page_table import PAGES
from penstock.security import UserScramCredentialUpsertion
from penstock.testing import Cluster
from tests.support.console_process import ConsoleBrowser, running_console
from tests.support.waiting import wait_until

GROUP = "<script>alert(1)</script>/.."
TOPIC = "orders.v1_x-y"
SCRIPT = "<script>alert(1)</script>"
GROUP_QUERY = "?id=%3Cscript%3Ealert(1)%3C%2Fscript%3E%2F.."
ADDRESSES = {
    "/broker": "?id=0",
    "/topic": f"?name={TOPIC}",
    "/group": GROUP_QUERY,
    "/records": f"?topic={TOPIC}",
    "/record": f"?topic={TOPIC}&partition=0&offset=0",
    "/usage": f"?topic={TOPIC}",
    "/transaction": "?id=%3Cscript%3Ealert(1)%3C%2Fscript%3E",
    "/plan": "?by=replicas,leaders,bytes",
    "/series": f"?subject=group-lag&name={GROUP_QUERY.removeprefix('?id=')}",
    "/tail": f"?name={TOPIC}",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, secure=True) as running:
        options = dict(running.client_options)
        with Admin(running.bootstrap, **options) as admin:
            admin.create_topic(TOPIC, 3, replication_factor=3)
            admin.alter_user_scram_credentials([UserScramCredentialUpsertion("anna", "anna's password")])
        with Producer(running.bootstrap, **options) as producer:
            for number in range(30):
                headers = [(SCRIPT, SCRIPT.encode())]
                value = b"%d %s" % (number, SCRIPT.encode())
                producer.send(TOPIC, value, SCRIPT.encode(), headers, partition=number % 3)
            producer.flush()
        with (
            Producer(running.bootstrap, transactional_id=SCRIPT, client_id=SCRIPT, **options) as producer,
            producer.transaction(),
        ):
            producer.send(TOPIC, b"in a transaction", partition=2)
        with Consumer(
            running.bootstrap, group_id=GROUP, client_id=SCRIPT, auto_offset_reset="earliest", **options
        ) as consumer:
            consumer.subscribe([TOPIC])
            found = 0
            while found < 31:
                found += len(consumer.poll(timeout_ms=1000))
            consumer.commit()
        with Producer(running.bootstrap, **options) as producer:
            producer.send(TOPIC, b"late", b"the key", partition=0).result(60)
        yield running


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> Iterator[str]:
    with running_console(cluster.bootstrap, tls_ca=cluster.client_options["tls_ca"]) as address:
        yield address


@pytest.fixture
def admins(cluster: Cluster, url: str) -> Iterator[ConsoleBrowser]:
    password = Path(cluster.client_options["password_file"]).read_text(encoding="utf-8").strip()
    with ConsoleBrowser(url) as browser:
        assert browser.log_in("admin", password).status_code == 303
        yield browser


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap, **dict(cluster.client_options)) as client:
        yield client


def as_plain(value: Any) -> Any:
    return json.loads(json.dumps(dataclasses.asdict(value)))


def test_every_page_and_its_twin_answer_and_no_name_becomes_a_tag(admins: ConsoleBrowser) -> None:
    for page in PAGES:
        query = ADDRESSES.get(page.path, "")
        text = admins.page(page.path + query)
        assert "<script>alert" not in text and "<h1>" in text, page.path
        assert admins.view(page.json_path + query), page.path


def test_the_overview_is_the_health_of_the_command_line(admins: ConsoleBrowser, admin: Admin) -> None:
    assert admins.view("/overview.json")["health"] == as_plain(admin.cluster_health())
    assert "The cluster is healthy." in admins.page("/overview")


def test_a_topic_is_that_of_the_command_line(admins: ConsoleBrowser, admin: Admin) -> None:
    shown, topic = admins.view(f"/topic.json?name={TOPIC}"), admin.describe_topic(TOPIC)
    assert shown["topic_id"] == topic.topic_id
    found = [(p["partition"], p["leader_id"], tuple(p["replicas"])) for p in shown["partitions"]]
    assert found == [(p.partition, p.leader_id, p.replicas) for p in topic.partitions]
    assert sum(p["latest"] for p in shown["partitions"]) == 33
    sources = {entry["name"]: (entry["value"], entry["source"]) for entry in shown["configs"]}
    assert sources == {e.name: (e.value, str(e.source)) for e in admin.describe_topic_config(TOPIC).values()}
    assert [one["topic"] for one in admins.view("/topics.json?filter=v1_")["topics"]] == [TOPIC]


def test_a_groups_lag_is_that_of_the_command_line(admins: ConsoleBrowser, admin: Admin) -> None:
    shown, lags = admins.view("/group.json" + GROUP_QUERY), admin.group_lag(GROUP)
    assert {(p["topic"], p["partition"]): p["lag"] for p in shown["partitions"]} == {
        tuple(at): one.lag for at, one in lags.items()
    }
    assert shown["lag"] == 1 and admins.view("/groups.json")["groups"][0]["lag"] == 1


def test_records_are_those_that_were_written(admins: ConsoleBrowser) -> None:
    newest = admins.view(f"/records.json?topic={TOPIC}&count=1")["records"][0]
    assert (newest["partition"], newest["offset"], newest["value"]["text"]) == (0, 10, "late")
    by_key = admins.view(f"/records.json?topic={TOPIC}&from=oldest&key=the+k")
    assert [one["value"]["text"] for one in by_key["records"]] == ["late"] and by_key["read"] == 32
    from_5 = admins.view(f"/records.json?topic={TOPIC}&partition=1&from=offset&offset=5&count=3")
    assert [one["offset"] for one in from_5["records"]] == [5, 6, 7] and from_5["next_offset"] == 8
    by_header = admins.view(f"/records.json?topic={TOPIC}&partition=1&from=oldest&header={quote(SCRIPT)}")
    assert len(by_header["records"]) == 10 and by_header["records"][0]["headers"][0]["name"] == SCRIPT
    assert admins.view(f"/records.json?topic={TOPIC}&from=time&time=-1h")["read"] == 32
    assert admins.view(f"/records.json?topic={TOPIC}&from=time&time=2100-01-01")["records"] == []
    assert "<script>" not in admins.page(f"/records?topic={TOPIC}&show=hex") + admins.page(f"/records?topic={TOPIC}")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        (f"topic={TOPIC}&from=offset&offset=1", "partition"),
        (f"topic={TOPIC}&from=time&time=soon", "time"),
        (f"topic={TOPIC}&count=501", "count"),
        (f"topic={TOPIC}&from=nowhere", "from"),
        ("count=1", "topic"),
    ],
)
def test_a_wrong_question_names_its_field(admins: ConsoleBrowser, query: str, field: str) -> None:
    assert admins.view(f"/records.json?{query}", 400)["error"]["message"].startswith(f"{field}: ")


def test_a_value_is_downloaded_as_it_is(admins: ConsoleBrowser) -> None:
    answer = admins.client.get(f"/download?topic={TOPIC}&partition=0&offset=10")
    assert (answer.status_code, answer.content) == (200, b"late")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == f'attachment; filename="{TOPIC}-0-10.value"'
    assert admins.client.get(f"/download?topic={TOPIC}&partition=0&offset=99").status_code == 400


def test_a_console_without_the_word_changes_nothing(admins: ConsoleBrowser) -> None:
    for change in CHANGES:
        assert admins.client.get(change.path).status_code == 403
        sent = admins.send(change.path, {"name": "new", "topic": "new", "sure": "yes"}, page="/overview")
        assert sent.status_code == 403 and "--allow-changes" in sent.text


def test_the_quorum_is_that_of_the_command_line(admins: ConsoleBrowser, admin: Admin) -> None:
    shown, info = admins.view("/quorum.json"), admin.describe_quorum()
    assert (shown["leader_id"], shown["leader_epoch"]) == (info.leader_id, info.leader_epoch)
    assert [one["node_id"] for one in shown["replicas"]] == [one.node_id for one in (*info.voters, *info.observers)]


def test_a_user_without_rights_is_told_which_one_is_missing(url: str) -> None:
    with ConsoleBrowser(url) as browser:
        assert browser.client.get("/topics.json").status_code == 401
        assert browser.log_in("anna", "wrong").status_code == 401
        assert browser.log_in("anna", "anna's password").status_code == 303
        assert browser.view("/topics.json")["topics"] == []
        refused = browser.view(f"/topic.json?name={TOPIC}", 403)["error"]
        assert refused["name"] == "TOPIC_AUTHORIZATION_FAILED" and "DESCRIBE" in refused["message"].upper()
        assert "A right is missing" in browser.page(f"/topic?name={TOPIC}", 403)


def test_a_broker_that_hangs_has_a_row_and_holds_up_no_other(admins: ConsoleBrowser, cluster: Cluster) -> None:
    cluster.pause(2)
    try:
        shown = {one["broker"]: one for one in admins.view("/brokers.json")["brokers"]}
        assert shown[2]["error"] and shown[2]["size_bytes"] is None
        assert shown[0]["size_bytes"] is not None and not shown[0]["error"]
        admins.view("/overview.json")
    finally:
        cluster.resume(2)


def test_a_cluster_that_is_away_is_a_calm_page_soon() -> None:
    with running_console("127.0.0.1:1") as address, ConsoleBrowser(address) as browser:
        assert "does not answer" in browser.page("/overview", 503)
        assert browser.view("/overview.json", 503)["error"]["name"] == "BootstrapError"


# -- changes -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def changing_url(cluster: Cluster) -> Iterator[str]:
    with running_console(
        cluster.bootstrap, "--allow-changes", "--audit-topic", "audit", tls_ca=cluster.client_options["tls_ca"]
    ) as address:
        yield address


@pytest.fixture
def changer(cluster: Cluster, changing_url: str) -> Iterator[ConsoleBrowser]:
    password = Path(cluster.client_options["password_file"]).read_text(encoding="utf-8").strip()
    with ConsoleBrowser(changing_url) as browser:
        assert browser.log_in("admin", password).status_code == 303
        yield browser


def command_of(plan: str) -> list[str]:
    found = re.search(r"<pre>(.*?)</pre>", plan, re.DOTALL)
    assert found is not None
    return shlex.split(html.unescape(found[1]))


def test_a_topic_is_made_changed_and_deleted_each_after_its_plan(
    changer: ConsoleBrowser, admin: Admin, cluster: Cluster
) -> None:
    form = {"name": "made", "partitions": "2", "replicas": "3", "configs": "retention.ms=86400000\r\n"}
    plan = changer.send("/create-topic", form)
    assert plan.status_code == 200 and "made" not in admin.list_topics()
    words = command_of(plan.text)
    assert words[:9] == ["penstock", "topics", "create", "-p", "2", "-r", "3", "-c", "retention.ms=86400000"]
    assert words[-1] == "made" and words[words.index("--username") + 1] == "admin"
    assert changer.send("/create-topic", {**form, "sure": "yes"}).headers["location"] == "/topic?name=made"
    assert len(changer.view("/topic.json?name=made")["partitions"]) == 2
    again = changer.send("/create-topic", form)
    assert again.status_code == 409 and "exists" in again.text

    configs = {"name": "made", "set": "retention.ms=1000\ncleanup.policy=compact", "unset": ""}
    assert "86400000 (DYNAMIC_TOPIC_CONFIG) → 1000" in html.unescape(changer.send("/alter-topic", configs).text)
    assert changer.send("/alter-topic", {**configs, "sure": "yes"}).status_code == 303
    assert admin.describe_topic_config("made")["retention.ms"].value == "1000"
    assert changer.send("/alter-topic", {"name": "made", "set": "no.such.key=1"}).status_code in (400, 409)

    wrong = changer.send("/delete-topic", {"name": "made", "sure": "yes", "typed": "mad"})
    assert wrong.status_code == 400 and "made" in admin.list_topics()
    assert changer.send("/delete-topic", {"name": "made", "sure": "yes", "typed": "made"}).status_code == 303
    assert "made" not in admin.list_topics()
    logs = "".join(cluster.log_path(node).read_text(encoding="utf-8") for node in range(3))
    for api in ("CreateTopics", "AlterConfigs", "DeleteTopics"):
        line = rf'"outcome":"done","principal":"User:admin",.*"api":"{api}",.*"made"'
        assert re.search(line, logs), f"no line of the audit log has {api}"


def test_who_changed_a_config_is_in_the_audit_log_that_was_shipped(
    changer: ConsoleBrowser, admin: Admin, cluster: Cluster
) -> None:
    admin.create_topic("audit", 1, replication_factor=3)
    admin.alter_topic_config(TOPIC, {"retention.ms": 77_777_777})
    logs = "".join(cluster.log_path(node).read_text(encoding="utf-8") for node in range(3))
    shipped = [line.partition("penstock.audit: ")[2] for line in logs.splitlines() if "penstock.audit: " in line]
    with Producer(cluster.bootstrap, **dict(cluster.client_options)) as producer:
        for line in (*shipped, "no line of it"):
            producer.send("audit", line.encode())
        producer.flush()
    view = changer.view(f"/audit.json?api=AlterConfigs&text=77777777&principal={quote('User:admin')}")
    assert [(one["outcome"], one["principal"]) for one in view["lines"]] == [("done", "User:admin")]
    assert TOPIC in view["lines"][0]["request"] and "77777777" in changer.page("/audit?api=AlterConfigs")
    assert changer.view("/audit.json")["other"] == 1
    by_name = changer.view(f"/audit.json?resource={TOPIC}&api=AlterConfigs")["lines"]
    assert [one["resources"] for one in by_name] == [[TOPIC]] * len(by_name) != []
    assert f"/audit?resource={TOPIC}" in changer.page(f"/topic?name={TOPIC}")
    assert 'href="/audit">Who did what' in changer.page("/overview")


def test_who_may_not_read_the_audit_topic_is_told_the_right_that_is_missing(
    changing_url: str, admins: ConsoleBrowser
) -> None:
    with ConsoleBrowser(changing_url) as browser:
        browser.log_in("anna", "anna's password")
        refused = browser.view("/audit.json", 403)["error"]
        assert refused["name"] == "TOPIC_AUTHORIZATION_FAILED" and "audit" in refused["message"]
        assert "A right is missing" in browser.page("/audit", 403)
    assert "--audit-topic TOPIC" in admins.page("/audit")
    assert "/audit?resource=" not in admins.page(f"/topic?name={TOPIC}")


def test_a_record_is_sent_and_the_command_sends_the_same(changer: ConsoleBrowser) -> None:
    form = {"topic": TOPIC, "partition": "1", "key": "it's", "value": "a\r\nb", "headers": f"h={SCRIPT}\r\nn="}
    plan = changer.send("/send-record", form)
    words = command_of(plan.text)
    assert (words[:2], words[3:5], words[-1]) == (["printf", "%s\\n"], ["|", "penstock"], TOPIC)
    assert json.loads(words[2]) == {
        "key": "it's",
        "value": "a\nb",
        "partition": 1,
        "headers": [{"name": "h", "value": SCRIPT}, {"name": "n", "value": ""}],
    }
    place = changer.send("/send-record", {**form, "sure": "yes"}).headers["location"]
    shown = changer.view(place.replace("/record?", "/record.json?"))["record"]
    assert (shown["partition"], shown["key"]["text"], shown["value"]["text"]) == (1, "it's", "a\nb")
    assert [one["name"] for one in shown["headers"]] == ["h", "n"]
    deleted = changer.send("/send-record", {"topic": TOPIC, "key": "k", "null": "yes", "sure": "yes"})
    null = changer.view(deleted.headers["location"].replace("/record?", "/record.json?"))["record"]["value"]
    assert null["form"] == "null"


def test_offsets_are_reset_as_the_plan_says(changer: ConsoleBrowser, admin: Admin) -> None:
    form = {"group": GROUP, "topic": TOPIC, "partition": "0", "to": "earliest"}
    plan = changer.send("/reset-offsets", form)
    assert f"{TOPIC}:0: 10 → 0" in html.unescape(plan.text) and "<script>" not in plan.text
    words = command_of(plan.text)
    assert words[3:6] == ["--to-earliest", "--topic", f"{TOPIC}:0"] and words[-1] == GROUP
    assert admin.group_offsets(GROUP)[TopicPartition(TOPIC, 0)].offset == 10
    assert changer.send("/reset-offsets", {**form, "sure": "yes"}).status_code == 303
    assert admin.group_offsets(GROUP)[TopicPartition(TOPIC, 0)].offset == 0
    assert changer.send("/reset-offsets", {**form, "to": "time", "at": "soon"}).status_code == 400


def test_a_move_that_does_not_go_on_is_not_cancelled(changer: ConsoleBrowser) -> None:
    answer = changer.send("/cancel-move", {"topic": TOPIC, "partition": "0"})
    assert answer.status_code == 400 and "is not being moved" in answer.text


def test_a_change_is_the_users_own_and_needs_the_users_right_and_token(
    changer: ConsoleBrowser, changing_url: str, admin: Admin
) -> None:
    with ConsoleBrowser(changing_url) as browser:
        browser.log_in("anna", "anna's password")
        refused = browser.send("/create-topic", {"name": "annas"})
        assert refused.status_code == 403 and "User:anna" in html.unescape(refused.text)
    form = {"name": "forged", "sure": "yes"}
    assert changer.client.post("/create-topic", data=form).status_code == 403
    assert changer.client.post("/create-topic", data={**form, "token": "0" * 64}).status_code == 403
    token = re.search(r'name="token" value="(\w+)"', changer.page("/create-topic"))
    assert token is not None
    evil = {"origin": "https://evil.example"}
    assert changer.client.post("/create-topic", data={**form, "token": token[1]}, headers=evil).status_code == 403
    assert not {"annas", "forged"} & set(admin.list_topics())


def hidden_of(plan: str) -> dict[str, str]:
    """The form below a plan, as a browser sends it."""
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', plan)
    return {name: html.unescape(value) for name, value in found}


def done_as_planned(changer: ConsoleBrowser, path: str, form: dict[str, str], **typed: str) -> list[str]:
    """Does what the plan's own form says; the words of the plan's command."""
    plan = changer.send(path, form)
    assert plan.status_code == 200, plan.text
    done = changer.client.post(path, data={**hidden_of(plan.text), **typed}, headers={"origin": changer.url})
    assert done.status_code == 303, done.text
    return command_of(plan.text)


def test_users_acls_and_quotas_are_changed_as_the_plans_say(
    changer: ConsoleBrowser, changing_url: str, admin: Admin, cluster: Cluster
) -> None:
    password = {"password": "bert's own", "again": "bert's own"}
    assert done_as_planned(changer, "/create-user", {"user": "bert"}, **password)[:3] == ["penstock", "users", "create"]
    acl = {"principal": "User:bert", "operation": "describe", "kind": "topic", "name": TOPIC}
    words = done_as_planned(changer, "/create-acl", acl)
    assert words[1:7] == ["acls", "create", "-o", "describe", "--topic", TOPIC] and words[-1] == "User:bert"
    with ConsoleBrowser(changing_url) as browser:
        assert browser.log_in("bert", "bert's own").status_code == 303
        assert [one["topic"] for one in browser.view("/topics.json")["topics"]] == [TOPIC]
        refused = browser.send("/create-acl", {**acl, "operation": "read"})
        assert refused.status_code == 403 and "User:bert" in html.unescape(refused.text)
    done_as_planned(changer, "/alter-quota", {"user": "bert", "producer_byte_rate": "1048576"})
    quotas = {tuple(entity): values for entity, values in admin.describe_client_quotas().items()}
    assert quotas[("bert", None, None)] == {"producer_byte_rate": 1048576.0}
    assert "1048576" in changer.page("/quotas") and "/delete-acl?principal=User%3Abert" in changer.page("/acls")
    done_as_planned(changer, "/delete-quota", {"user": "bert"})
    done_as_planned(changer, "/delete-acl", acl)
    done_as_planned(changer, "/alter-user", {"user": "bert"}, password="another", again="another")
    done_as_planned(changer, "/delete-user", {"user": "bert"}, typed="bert")
    assert "bert" not in admin.describe_user_scram_credentials()
    assert not [one for one in admin.describe_acls() if one.principal == "User:bert"]
    logs = "".join(cluster.log_path(node).read_text(encoding="utf-8") for node in range(3))
    for api in ("AlterUserScramCredentials", "CreateAcls", "DeleteAcls", "AlterClientQuotas"):
        assert re.search(rf'"outcome":"done","principal":"User:admin",.*"api":"{api}",.*bert', logs), api
    assert "bert's own" not in logs


def test_a_cluster_is_evened_and_a_record_is_sent_once_however_often_the_form_is(
    changer: ConsoleBrowser, admin: Admin
) -> None:
    admin.create_topic("uneven", assignments=[[0, 1]] * 6)
    words = done_as_planned(changer, "/balance", {"by": "replicas"})
    assert words[1:5] == ["cluster", "balance", "--by", "replicas"]
    wait_until(lambda: not admin.list_partition_reassignments())
    assert {replica for p in admin.describe_topic("uneven").partitions for replica in p.replicas} == {0, 1, 2}
    assert changer.send("/cancel-moves", {}).status_code == 400, "nothing is being moved"
    form = hidden_of(changer.send("/send-record", {"topic": "uneven", "partition": "0", "value": "once"}).text)
    answers = [
        changer.client.post("/send-record", data=form, headers={"origin": changer.url}).headers["location"]
        for _ in range(3)
    ]
    assert answers == ["/record?topic=uneven&partition=0&offset=0"] * 3
    assert admin.list_offsets([TopicPartition("uneven", 0)])[TopicPartition("uneven", 0)].offset == 1
