"""Files that declare a cluster: what they say, and that each fault is told with its key."""

from __future__ import annotations

import pytest

from penstock.declared.reading import FILE_BYTES_MAX, MECHANISMS, read_declared
from penstock.declared.state import DeclaredTopic, DeclaredUser
from penstock.errors import ConfigError
from penstock.messages.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from penstock.messages.security.quotas import QuotaEntity

EXAMPLE = """
[topics.orders]
partitions = 6
replication-factor = 3
config = { "retention.ms" = 86400000, "cleanup.policy" = ["compact", "delete"], "x.y" = true }

[topics."a.b".config]
retention.ms = 1

[brokers.default]
config = { "log.retention.ms" = 1 }

[brokers.2]
config = { "cordoned.log.dirs" = "*" }

[users.anna]
mechanisms = ["SCRAM-SHA-256"]
password-env = "ANNA"

[users.bob]

[[acls]]
principal = "User:anna"
operations = ["read", "Describe-Configs"]
topic = "orders"
pattern = "prefixed"
permission = "deny"
host = "10.0.0.1"

[[acls]]
principal = "User:anna"
operations = ["Alter"]
cluster = true

[[quotas]]
user = "anna"
client-id = "*"
producer_byte_rate = 1000

[[quotas]]
ip = "*"
connection_creation_rate = 2.5
"""

HUGE = "0x" + 40_000 * "f"
"""A number that Python makes neither a text nor a float of."""


def read(text: str) -> object:
    return read_declared("f.toml", text.encode())


def test_a_file_says_topics_configurations_users_acls_and_quotas() -> None:
    found = read_declared("f.toml", EXAMPLE.encode())
    config = {"retention.ms": "86400000", "cleanup.policy": "compact,delete", "x.y": "true"}
    assert found.topics == {
        "orders": DeclaredTopic("orders", 6, 3, config),
        "a.b": DeclaredTopic("a.b", None, None, {"retention.ms": "1"}),
    }
    assert found.configs == {None: {"log.retention.ms": "1"}, 2: {"cordoned.log.dirs": "*"}}
    assert found.users == {
        "anna": DeclaredUser("anna", ("SCRAM-SHA-256",), None, "ANNA"),
        "bob": DeclaredUser("bob", tuple(sorted(MECHANISMS))),
    }
    of_topic = (Permission.DENY, "10.0.0.1", PatternType.PREFIXED)
    assert found.acls == {
        AclBinding(ResourceType.TOPIC, "orders", "User:anna", Operation.READ, *of_topic),
        AclBinding(ResourceType.TOPIC, "orders", "User:anna", Operation.DESCRIBE_CONFIGS, *of_topic),
        AclBinding(ResourceType.CLUSTER, "kafka-cluster", "User:anna", Operation.ALTER),
    }
    assert found.quotas == {
        QuotaEntity("anna", ""): {"producer_byte_rate": 1000.0},
        QuotaEntity(ip=""): {"connection_creation_rate": 2.5},
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[topics.t]\npartitons = 1", r"f.toml: topics.t.partitons: unknown key; .* did you mean 'partitions'"),
        ("[topics.my.orders]", r"f.toml: topics.my.orders: unknown table; .* like \[topics.\"my.orders\"\]"),
        ("[[acls]]\n[acls.topic.t]", r"f.toml: acls\[1\].topic: a table must be a text in quotes"),
        ("[topic.t]", r"f.toml: topic: unknown key; .* did you mean 'topics'"),
        ("topics = 1", "topics: must be tables"),
        ("[topics]\nt = 1", r"topics.t: must be a table: \[topics.t\]"),
        ("[topics.t]\npartitions = '6'", "topics.t.partitions: '6' must be a number from 1"),
        ("[topics.t]\npartitions = true", "topics.t.partitions: True must be a number"),
        ("[topics.t]\nreplication-factor = 0", "topics.t.replication-factor: 0 must be a number from 1"),
        ("[topics.'a b']", "topics.a b: topic name 'a b' has other characters"),
        ("[topics.__consumer_offsets]", "topics.__consumer_offsets: is one of the cluster's own topics"),
        ("[topics.t]\nconfig = 1", "topics.t.config: must be a table"),
        ("[topics.t]\nconfig = { k = 2020-01-01 }", "topics.t.config.k: must be a text, a number"),
        ("[brokers.x]", "brokers.x: is not the id of a broker; give a number, or 'default'"),
        ("[brokers.01]", "brokers.01: is not the id of a broker"),
        ("[users.a]\npassword = 'x'", "users.a.password: a password must not be in the file"),
        ("[users.a]\nmechanisms = ['SCRAM']", "users.a.mechanisms: 'SCRAM' must be one of"),
        ("[users.a]\niterations = 1", "users.a.iterations: 1 must be a number from 4096"),
        ("[users.a]\npassword-env = 'A'\npassword-file = 'f'", "users.a: give one of password-env and password-file"),
        ("[users.'']", "users.: a user's name must not be empty"),
        ("acls = 1", r"acls: must be a list of tables, each begun by \[\[acls\]\]"),
        ("[[acls]]\nprincipal = 'User:a'\noperations = ['Read']", r"acls\[1\]: name one resource: topic, group"),
        ("[[acls]]\nprincipal = 'a'\ntopic = 't'\noperations = ['Read']", r"acls\[1\].principal: 'a' must be like"),
        ("[[acls]]\nprincipal = 'User:a'\ntopic = 't'\noperations = ['Rea']", r"acls\[1\].operations: 'Rea' must be"),
        ("[[acls]]\nprincipal = 'User:a'\ntopic = 't'\noperations = []", r"acls\[1\]: needs the name of a resource"),
        ("[[acls]]\nprincipal = 'User:a'\ncluster = 1\noperations = ['Read']", r"acls\[1\].cluster: must be true"),
        (
            "[[acls]]\nprincipal = 'User:a'\ntopic = 't'\noperations = ['Read']\npattern = 'x'",
            r"acls\[1\].pattern: 'x' must be one of literal, prefixed",
        ),
        ("[[quotas]]\nproducer_byte_rate = 1", r"quotas\[1\]: names nobody"),
        ("[[quotas]]\nuser = 'a'\nip = 'b'\nproducer_byte_rate = 1", r"quotas\[1\]: an address has quotas of its own"),
        ("[[quotas]]\nuser = 'a'\nproducer_byte_rate = 0", r"quotas\[1\].producer_byte_rate: 0 must be a number above"),
        ("[[quotas]]\nuser = 'a'\nproducer_byte_rate = inf", r"quotas\[1\].producer_byte_rate: inf must be a number"),
        ("[[quotas]]\nuser = 'a'", r"quotas\[1\]: user 'a' can have producer_byte_rate"),
        ("[[quotas]]\nuser = 'a'\nconnection_creation_rate = 1", r"quotas\[1\]: user 'a' can have producer_byte_rate"),
        ("[[quotas]]\nuser = ''\nproducer_byte_rate = 1", r"quotas\[1\]: a name is empty; '\*' is everybody"),
        (
            "[[quotas]]\nuser = 'a'\nproducer_byte_rate = 1\n[[quotas]]\nuser = 'a'\nproducer_byte_rate = 2",
            r"quotas\[2\]: user 'a' has quotas in another place",
        ),
        (
            "[topics.t]\nconfig = { 'a.b' = 1, a.b = 2 }",
            r"topics.t.config.a.b: is given twice, with quotes and without",
        ),
        ("[topics.t.config]\n" + 5_000 * "a." + "b = 1", "topics.t.config: has more than 16 tables in each other"),
        (
            "[topics.t]\nconfig = { k = " + HUGE + " }",
            "topics.t.config.k: a number of more than 63 bits; give a smaller",
        ),
        ("[topics.t]\npartitions = " + HUGE, "topics.t.partitions: a number of more than 63 bits must be"),
        ("[[quotas]]\nuser = 'a'\nproducer_byte_rate = " + HUGE, "producer_byte_rate: a number of more than 63 bits"),
        ("[[quotas]]\nuser = " + HUGE, r"quotas\[1\].user: a number of more than 63 bits must be a text"),
        ("[topics.t]\npartitions = [" + HUGE + "]", "topics.t.partitions: a list must be a number"),
        ("[users.a]\nmechanisms = [" + HUGE + "]", "users.a.mechanisms: must be a list of texts"),
        ("[topics.t]\n[topics.t]", r"not valid TOML: .*\(at line 2"),
        ("a = " + 40_000 * "[", "not valid TOML: arrays or tables in each other"),
    ],
)
def test_a_fault_is_told_with_its_key(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read(text)


def test_a_file_that_is_not_utf8_or_too_large_is_refused() -> None:
    with pytest.raises(ConfigError, match="f: not UTF-8 at byte 0"):
        read_declared("f", b"\xff")
    with pytest.raises(ConfigError, match="f: larger than"):
        read_declared("f", bytes(FILE_BYTES_MAX + 1))


def test_more_things_than_a_cluster_has_are_refused() -> None:
    text = "".join(f"[topics.t{number}]\n" for number in range(100_001))
    with pytest.raises(ConfigError, match="topics: has 100001 entries; at most 100000"):
        read(text)
