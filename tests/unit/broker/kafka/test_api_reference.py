"""The page of the APIs of Kafka's protocol is the one that its table makes."""

from __future__ import annotations

import re
from pathlib import Path

from broker.kafka.api_reference import LEFT_OUT, reference
from broker.kafka.api_rows import SERVED
from broker.kafka.schemas.table import REQUESTS


def test_the_page_is_up_to_date() -> None:
    page = Path(__file__).parents[4] / "docs" / "kafka-apis.md"
    assert page.read_text() == reference(), "run python -m broker.kafka.api_reference > docs/kafka-apis.md"


def test_messages_are_declared_for_the_apis_that_are_served_and_for_no_other() -> None:
    served = {one.row.key for one in SERVED}
    assert REQUESTS.keys() == served and not served & LEFT_OUT.keys()


def test_a_served_api_has_its_versions_beside_kafkas_and_every_other_one_is_named() -> None:
    served, _, left = reference().partition("## Not served")
    assert re.search(r"^\| 3 \| Metadata \| 0 to 13 \| 0 to 13 \| [\d,]+ \|$", served, re.MULTILINE)
    assert "Metadata (3)" not in left
    assert "WriteTxnMarkers (27)" in left and "| WriteTxnMarkers |" not in served
