"""The keys of the authorizer in the configuration of a node, and the one line that each mistake gets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.broker.config.test_security_config import FILES, MAP, parse, refusal

ON: dict[str, Any] = {"authorizer.class.name": "StandardAuthorizer"}


def test_without_the_key_there_is_none() -> None:
    config = parse({})
    assert config.authorizer_class_name == "" and config.super_user_principals == ()
    assert not config.allow_everyone_if_no_acl_found


@pytest.mark.parametrize("name", ["StandardAuthorizer", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"])
def test_kafkas_class_name_and_the_short_one_are_the_same(name: str) -> None:
    users = "User:admin; User:CN=ops,O=shop ;"
    config = parse({"authorizer.class.name": name, "super.users": users, "allow.everyone.if.no.acl.found": True})
    assert config.authorizer_class_name and config.allow_everyone_if_no_acl_found
    assert config.super_user_principals == ("User:admin", "User:CN=ops,O=shop")


BAD: list[tuple[dict[str, Any], str]] = [
    ({"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}, "must be one of"),
    ({**ON, "super.users": "admin"}, "User:NAME"),
    ({**ON, "super.users": "User:"}, "User:NAME"),
    ({**ON, "super.users": "User:*"}, "User:NAME"),
    ({**ON, "super.users": "User:a,b;Group:c"}, "Group:c"),
    ({"super.users": "User:admin"}, "no authorizer"),
    ({"allow.everyone.if.no.acl.found": True}, "no authorizer"),
    ({**ON, "allow.everyone.if.no.acl.found": "perhaps"}, "allow.everyone.if.no.acl.found"),
]


@pytest.mark.parametrize(("values", "words"), BAD)
def test_a_mistake_names_the_key_and_the_remedy(values: dict[str, Any], words: str) -> None:
    assert words in refusal(values)


def test_a_listener_of_nodes_that_strangers_reach_is_no_place_for_acls() -> None:
    at = "BROKER://0.0.0.0:9192,INTERNAL://10.0.0.1:9194,CONTROLLER://127.0.0.1:9193"
    advertised = {"listeners": at, "advertised.listeners": "BROKER://node-1:9192"}
    text = refusal({**ON, **advertised})
    assert "INTERNAL://10.0.0.1:9194" in text and "INTERNAL:SSL" in text
    assert parse({**ON, **advertised, MAP: "INTERNAL:SSL", **FILES}).authorizer_class_name
    for host in ("127.0.0.1", "localhost", "[::1]"):
        own = at.replace("10.0.0.1", host)
        assert parse({**ON, **advertised, "listeners": own}).authorizer_class_name
