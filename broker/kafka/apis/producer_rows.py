"""The rows of the APIs of producers, and of those that a cluster without security answers."""

from __future__ import annotations

from typing import Final

from broker.kafka.api_row import BYTES_MAX, PRODUCE_KEY, ApiRow, Failed, always_pipelined, never_pipelined
from broker.kafka.apis import acls, quotas
from broker.kafka.apis import delete_records as deletion
from broker.kafka.apis import describe_producers as description
from broker.kafka.apis import init_producer_id as producer_ids
from broker.kafka.apis import produce as producing
from broker.kafka.parts import DoorParts
from broker.kafka.plan import MakePlan
from broker.kafka.schemas.table import REQUESTS, RESPONSES

ELEMENTS_MAX: Final = 30_000
"""Topics and partitions of one request together. A request of 1 MiB, which is the Java producer's largest, holds 14,000
of the smallest batches. An append takes 20 µs, and the next request has its turn after all of them."""


def producer_rows(parts: DoorParts) -> list[ApiRow]:
    """The rows in the order of their keys. Produce below version 3 is answered with an error: see its plan."""
    producers = description.describe_producers_plan(parts)
    return [
        _row(PRODUCE_KEY, "Produce", (0, 13), producing.produce_plan(parts), producing.produce_failed),
        _row(21, "DeleteRecords", (0, 2), deletion.delete_records_plan(parts), deletion.delete_records_failed),
        _row(
            22,
            "InitProducerId",
            (0, 5),
            producer_ids.init_producer_id_plan,
            producer_ids.init_producer_id_failed,
        ),
        _row(29, "DescribeAcls", (1, 3), acls.describe_acls),
        _row(30, "CreateAcls", (1, 3), acls.create_acls, acls.create_acls_failed),
        _row(31, "DeleteAcls", (1, 3), acls.delete_acls, acls.delete_acls_failed),
        _row(48, "DescribeClientQuotas", (0, 1), quotas.describe_client_quotas, quotas.describe_client_quotas_failed),
        _row(49, "AlterClientQuotas", (0, 1), quotas.alter_client_quotas, quotas.alter_client_quotas_failed),
        _row(61, "DescribeProducers", (0, 0), producers, description.describe_producers_failed),
    ]


def _row(key: int, name: str, versions: tuple[int, int], plan: MakePlan, failed: Failed | None = None) -> ApiRow:
    return ApiRow(
        key,
        name,
        REQUESTS[key],
        RESPONSES[key],
        versions,
        plan,
        failed=failed,
        elements_max=ELEMENTS_MAX,
        bytes_max=None if key == PRODUCE_KEY else BYTES_MAX,
        is_paced=key != PRODUCE_KEY,
        is_pipelined=always_pipelined if key == PRODUCE_KEY else never_pipelined,
    )
