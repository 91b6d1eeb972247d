"""New connections of an address come at its quota: in a burst at first, then one after the other (KIP-612)."""

from __future__ import annotations

from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.sampled_rate import QuotaWindows
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE
from metadata.records import ClientQuotaRecord

WINDOWS = QuotaWindows(10, 1_000)
HOST, OTHER, OWN = "10.0.0.1", "10.0.0.2", "10.0.0.9"


def quotas_of(*records: ClientQuotaRecord) -> ClientQuotas:
    delta = MetadataDelta(EMPTY_IMAGE)
    for record in records:
        delta.replay(record)
    made = ClientQuotas(WINDOWS, WINDOWS)
    made.published(delta, delta.apply(1, 1))
    return made


def rate(ip: str, value: float) -> ClientQuotaRecord:
    return ClientQuotaRecord("connection_creation_rate", ip=ip, value=value)


def test_after_a_burst_each_waits_for_its_turn_and_another_address_does_not() -> None:
    quotas = quotas_of(rate("", 2))
    assert [quotas.connected(HOST, 0) for _ in range(23)] == [0] * 20 + [500, 1_000, 1_500]
    assert quotas.connected(OTHER, 0) == 0
    assert quotas.connected(HOST, 2_000) == 0
    counts = quotas.statistics()["connection_creation_rate"]
    assert (counts.throttled, counts.throttle_ms) == (3, 3_000)


def test_the_rate_over_30_s_is_the_quota() -> None:
    quotas = quotas_of(rate("", 20))
    for _ in range(200):
        quotas.connected(HOST, 0)  # the burst
    now_ms, came = 0, 0
    while now_ms < 30_000:
        now_ms += quotas.connected(HOST, now_ms)
        came += 1
    assert abs(came - 600) <= 30


def test_who_goes_before_its_turn_gives_it_to_the_next() -> None:
    quotas = quotas_of(rate("", 1))
    for _ in range(10):
        quotas.connected(HOST, 0)
    assert (quotas.connected(HOST, 0), quotas.connected(HOST, 0)) == (1_000, 2_000)
    quotas.left(HOST)
    assert quotas.connected(HOST, 0) == 2_000


def test_an_address_of_its_own_has_its_own_and_without_quotas_nobody_waits() -> None:
    quotas = quotas_of(rate("", 1), rate(OWN, 100))
    assert [quotas.connected(OWN, 0) for _ in range(1_001)][-1] == 10
    assert not quotas.is_active, "no request is charged for it"
    none = quotas_of()
    assert not none.has_addresses and none.connected(HOST, 0) == 0


def test_a_machine_with_a_network_of_ipv6_has_the_rate_of_one_and_a_named_address_its_own() -> None:
    named = "2001:db8::5"
    quotas = quotas_of(rate("", 1), rate(named, 1))
    waits = [quotas.connected(f"2001:db8::1:{number:x}", 0) for number in range(12)]
    assert waits == [0] * 10 + [1_000, 2_000]
    quotas.left("2001:db8::ffff")
    assert quotas.connected("2001:db8::abcd", 0) == 2_000
    assert [quotas.connected(other, 0) for other in ("2001:db8:0:1::1", named, "10.0.0.1", "10.0.0.2")] == [0] * 4
    assert [quotas.connected("::ffff:10.0.0.1", 0) for _ in range(10)][-1] == 1_000, "mapped, it is 10.0.0.1"
