"""The lines about TLS between nodes that fails: what each says, and how seldom."""

from __future__ import annotations

import pytest

from broker.tls.failed_handshakes import CHANGE_MS, PEERS_MAX, REPEAT_MS, FailedHandshakes, reason_of

FAILED = "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:9193: Tls handshake failed"
UNVERIFIED = f"{FAILED} (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: error:1000007d:SSL:CERTIFICATE_VERIFY_FAILED: %s: OK"
PEER = "controller 1 at 10.0.0.1:9193"


@pytest.mark.parametrize(
    ("details", "says"),
    [
        (UNVERIFIED % "certificate has expired", "has expired; renew it there"),
        (UNVERIFIED % "certificate is not yet valid", "is not valid yet; look at the clocks"),
        (UNVERIFIED % "unsupported certificate purpose", "is not for servers (extended key usage serverAuth"),
        (UNVERIFIED % "unable to get local issuer certificate", "is of no CA in this node's truststore"),
        (UNVERIFIED % "self-signed certificate in certificate chain", "is of no CA in this node's truststore"),
        (UNVERIFIED % "invalid CA certificate", "cannot be verified (invalid CA certificate)"),
        (f"{FAILED}: error:1000042e:SSL:TLSV1_ALERT_PROTOCOL_VERSION", "it refuses this node's certificate"),
        (f"{FAILED}: SSL_ERROR_SSL: error:100000f7:SSL:WRONG_VERSION_NUMBER", "it speaks no TLS there"),
        (f"{FAILED}: something new", "the handshake failed"),
        ("failed to connect to all addresses; last error: ipv4:10.0.0.1:9193: Connection refused", ""),
        ("Socket closed", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_a_reason_is_said_in_words_with_the_remedy(details: str, says: str) -> None:
    assert says in reason_of(details) and bool(says) == bool(reason_of(details))


def test_a_reason_that_stays_is_told_again_after_a_minute_and_a_new_one_soon() -> None:
    handshakes = FailedHandshakes()
    expired, unknown = UNVERIFIED % "certificate has expired", UNVERIFIED % "unable to get local issuer certificate"
    assert handshakes.line(PEER, expired, True, 0).startswith(f"no TLS with {PEER}: its certificate has expired")
    assert [handshakes.line(PEER, expired, True, at) for at in (1, CHANGE_MS, REPEAT_MS - 1)] == ["", "", ""]
    assert handshakes.line(PEER, expired, True, REPEAT_MS)
    assert handshakes.line(PEER, unknown, True, REPEAT_MS + CHANGE_MS - 1) == ""
    assert handshakes.line(PEER, unknown, True, REPEAT_MS + CHANGE_MS)
    assert handshakes.line("broker 2 at b:1", unknown, True, REPEAT_MS + CHANGE_MS), "another node's is its own"


def test_so_many_nodes_are_remembered_and_no_more() -> None:
    handshakes = FailedHandshakes()
    for number in range(PEERS_MAX + 5):
        assert handshakes.line(f"broker {number}", f"{FAILED}: x", True, 0)
    assert repr(handshakes) == f"FailedHandshakes({PEERS_MAX} nodes)"
