"""One machine's address is the same however it is written, and an ACL with any of its forms counts."""

from __future__ import annotations

import ipaddress
import random

import pytest

from broker.authorization.authorizer import Authorizer
from broker.connections.accepted_sockets import peer_of
from broker.kafka.connection.bound_sockets import endpoint_of
from broker.quotas.quota_limits import address_limits_of
from penstock.addresses import as_connected, network_of
from penstock.messages.security.acls import AclBinding, Operation, Permission, ResourceType
from penstock.messages.security.quotas import CONNECTION_CREATION_RATE, QuotaEntity
from penstock.types import Endpoint


@pytest.mark.parametrize(
    ("written", "connected"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("::ffff:a00:7", "10.0.0.7"),
        ("0:0:0:0:0:FFFF:10.0.0.7", "10.0.0.7"),
        ("2001:DB8:0:0::1", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("*", "*"),
        ("", ""),
        ("10.0.0.07", "10.0.0.07"),
        ("node-1", "node-1"),
    ],
)
def test_an_address_has_one_form(written: str, connected: str) -> None:
    assert as_connected(written) == connected
    assert as_connected(connected) == connected


@pytest.mark.parametrize(
    ("grpc", "socket", "host"),
    [
        ("ipv4:10.0.0.7:1", ("10.0.0.7", 1), "10.0.0.7"),
        ("ipv6:%5B::ffff:10.0.0.7%5D:1", ("::ffff:10.0.0.7", 1, 0, 0), "10.0.0.7"),
        ("ipv6:[::ffff:a00:7]:1", ("::ffff:a00:7", 1, 0, 0), "10.0.0.7"),
        ("ipv6:%5Bfe80::1%252%5D:1", ("fe80::1", 1, 0, 2), "fe80::1"),
    ],
)
def test_both_protocols_know_one_client_by_the_same_address(grpc: str, socket: tuple[object, ...], host: str) -> None:
    assert peer_of(grpc) == endpoint_of(socket) == Endpoint(host, 1)


def acl(host: str, permission: Permission) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, "t", "User:bob", Operation.READ, permission, host)


def may_read(at: str, *acls: AclBinding) -> bool:
    rights = Authorizer(lambda: {str(number): one for number, one in enumerate(acls)}).rights_of("User:bob", at)
    return rights.allows(Operation.READ, ResourceType.TOPIC, "t")


@pytest.mark.parametrize("at", ["10.0.0.7", "::ffff:10.0.0.7"])
@pytest.mark.parametrize("host", ["10.0.0.7", "::ffff:10.0.0.7", "::ffff:a00:7"])
def test_an_acl_of_an_older_release_counts_whatever_its_form(host: str, at: str) -> None:
    assert not may_read(at, acl("*", Permission.ALLOW), acl(host, Permission.DENY))
    assert may_read(at, acl(host, Permission.ALLOW))
    assert not may_read("10.0.0.8", acl(host, Permission.ALLOW))


def test_a_zone_makes_a_denial_no_narrower_and_a_permission_no_wider() -> None:
    assert not may_read("fe80::1", acl("*", Permission.ALLOW), acl("fe80::1%eth0", Permission.DENY))
    assert not may_read("fe80::1", acl("fe80::1%eth0", Permission.ALLOW))
    assert not may_read("fe80::1%2", acl("*", Permission.ALLOW), acl("fe80::1", Permission.DENY))


def test_an_acl_is_removed_in_the_form_in_which_it_was_added() -> None:
    acls = {"1": acl("*", Permission.ALLOW), "2": acl("::ffff:a00:7", Permission.DENY)}
    authorizer = Authorizer(lambda: acls)
    assert not authorizer.rights_of("User:bob", "10.0.0.7").allows(Operation.READ, ResourceType.TOPIC, "t")
    acls = {"1": acls["1"]}
    assert authorizer.rights_of("User:bob", "10.0.0.7").allows(Operation.READ, ResourceType.TOPIC, "t")


def test_a_quota_of_an_older_release_counts_whatever_its_form() -> None:
    def quota(ip: str, rate: float) -> tuple[QuotaEntity, dict[str, float]]:
        return QuotaEntity(ip=ip), {CONNECTION_CREATION_RATE: rate}

    assert address_limits_of(dict([quota("::ffff:a00:7", 5), quota("", 9)])) == {
        "::ffff:a00:7": 5, "10.0.0.7": 5, "": 9,
    }  # fmt: skip
    both = dict([quota("::ffff:a00:7", 5), quota("10.0.0.7", 2)])
    assert address_limits_of(both)["10.0.0.7"] == 2, "the one that lists show as it is compared"


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("a name", "a name"),
    ],
)
def test_the_addresses_of_one_machine_count_as_one(host: str, network: str) -> None:
    assert network_of(host) == network


def test_addresses_are_written_as_the_standard_library_writes_them() -> None:
    """However many zeros they have, and wherever."""
    rng = random.Random(7)
    for _ in range(3_000):
        raw = bytes(rng.choice((0, 0, 0, 1, 255, rng.randrange(256))) for _ in range(16))
        for address in (
            ipaddress.IPv6Address(raw),
            ipaddress.IPv4Address(raw[:4]),
            ipaddress.IPv6Address(raw[:4].rjust(16, b"\0")),
        ):
            for text in (str(address), address.exploded):
                mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
                expected = mapped or address
                assert as_connected(text) == str(expected)
                is_4 = isinstance(expected, ipaddress.IPv4Address)
                assert network_of(text) == str(expected if is_4 else ipaddress.ip_network((expected, 64), strict=False))
    for text in ("", "01.2.3.4", "1.2.3", "a\0b", "é", "1.2.3.4 ", "[::1]", "::1/64"):
        assert as_connected(text) == network_of(text) == text
