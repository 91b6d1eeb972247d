"""Promises about the options of a write."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.spark.options import check_table_options, source_options
from penstock.spark.writing.sink_options import TIMEOUT, TIMEOUT_MS, sink_options

GIVEN = {"bootstrap": "h:1", "topic": "t"}
AT_LEAST = {**GIVEN, "semantics": "at-least-once"}


def test_a_write_is_exactly_once_unless_the_options_say_otherwise() -> None:
    for streaming in (True, False):
        options = sink_options(GIVEN, streaming=streaming)
        assert options.is_exactly_once and options.timeout_ms == TIMEOUT_MS
        assert sink_options({**GIVEN, "semantics": "Exactly-Once"}, streaming=streaming) == options
        assert not sink_options(AT_LEAST, streaming=streaming).is_exactly_once


def test_the_name_of_a_batch_write() -> None:
    options = sink_options({**GIVEN, "txnAppId": "nightly", "txnVersion": "20261126"})
    assert (options.application, options.version) == ("nightly", 20261126)
    assert sink_options({**GIVEN, "txnGoesBackTo": "7"}, streaming=True).goes_back_to == 7


def test_the_transactions_time_out_is_the_sinks_and_none_of_its_clients() -> None:
    given = {**GIVEN, TIMEOUT: "70000"}
    options = sink_options(given)
    assert (options.timeout_ms, options.client, options.without_effect) == (70_000, {}, ())
    assert sink_options({**AT_LEAST, TIMEOUT: "70000"}).without_effect == (
        f"option {TIMEOUT!r} has no effect: semantics=at-least-once has no transactions",
    )
    assert source_options({"bootstrap": "h:1", "subscribe": "t", TIMEOUT: "70000"}, streaming=True).client == {}


def test_a_table_may_have_semantics_for_its_inserts_and_no_name_of_a_write() -> None:
    check_table_options(AT_LEAST)
    assert source_options(AT_LEAST, streaming=False).subscription.topics == ("t",)
    with pytest.raises(ConfigError, match="the penstock table has no option 'txnappid'"):
        check_table_options({**GIVEN, "txnAppId": "a"})


@pytest.mark.parametrize(
    ("more", "streaming", "message"),
    [
        ({"semantics": "once"}, True, "^option semantics='once' must be exactly-once or at-least-once$"),
        ({"semantic": "exactly-once"}, True, "did you mean 'semantics'"),
        ({"txnAppId": "a"}, False, "^option txnAppId needs txnVersion, too"),
        ({"txnVersion": "1"}, False, "^option txnVersion needs txnAppId, too"),
        ({"txnAppId": "a", "txnVersion": "1"}, True, "^option txnAppId is for batch writes; a stream names its writes"),
        ({"txnAppId": " ", "txnVersion": "1"}, False, "must have 1 to 200 characters, and no '#'"),
        ({"txnAppId": "a" * 201, "txnVersion": "1"}, False, "must have 1 to 200 characters"),
        ({"txnAppId": "a#b", "txnVersion": "1"}, False, "and no '#'"),
        ({"txnAppId": "a", "txnVersion": "-1"}, False, "^option txnVersion='-1' must be a whole number from 0"),
        ({"txnAppId": "a", "txnVersion": str(2**63)}, False, "must be a whole number from 0"),
        ({"txnAppId": "a", "txnVersion": "x"}, False, "^option txnVersion='x' must be a whole number"),
        ({"txnGoesBackTo": "soon"}, True, "^option txnGoesBackTo='soon' must be a whole number"),
        (
            {"semantics": "at-least-once", "txnAppId": "a", "txnVersion": "1"},
            False,
            "txnAppId is for semantics=exactly",
        ),
        ({"semantics": "at-least-once", "txnGoesBackTo": "1"}, True, "txnGoesBackTo is for semantics=exactly-once"),
        ({TIMEOUT: "0"}, True, "^option kafka.transaction.timeout.ms=0 must be at least 1"),
        ({TIMEOUT: "soon"}, True, "must be a whole number"),
        ({"kafka.enable.idempotence": "false"}, True, "is against semantics=exactly-once; leave it out"),
        ({"kafka.retries": "0"}, True, "retries"),
        ({"kafka.transactional.id": "mine"}, True, "a write names its transactions itself"),
    ],
)
def test_a_wrong_option_is_refused_with_its_name_and_the_remedy(
    more: dict[str, str], streaming: bool, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        sink_options({**GIVEN, **more}, streaming=streaming)


def test_at_least_once_takes_what_a_plain_producer_takes() -> None:
    assert sink_options({**AT_LEAST, "kafka.enable.idempotence": "false"}).client == {"enable_idempotence": False}
