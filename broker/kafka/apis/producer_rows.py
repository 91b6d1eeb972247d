"""The rows of the APIs of producers, and of those that a cluster without security answers."""

from __future__ import annotations

from broker.kafka.api_row import ApiRow
from broker.kafka.apis import delete_records as deletion
from broker.kafka.apis import describe_producers as description
from broker.kafka.apis import init_producer_id as producer_ids
from broker.kafka.apis import produce as producing
from broker.kafka.apis import security
from broker.kafka.apis.find_coordinator import find_coordinator, find_coordinator_failed
from broker.kafka.parts import DoorParts
from broker.kafka.schemas.groups.coordinators import FindCoordinatorRequest, FindCoordinatorResponse
from broker.kafka.schemas.offsets import DeleteRecordsRequest, DeleteRecordsResponse
from broker.kafka.schemas.produce import ProduceRequest, ProduceResponse
from broker.kafka.schemas.producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from broker.kafka.schemas.security import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)


def producer_rows(parts: DoorParts) -> list[ApiRow]:
    """In the order of their keys. Produce below version 3 is answered with an error: see its plan."""
    return [
        ApiRow(
            0,
            "Produce",
            ProduceRequest,
            ProduceResponse,
            (0, 13),
            producing.produce_plan(parts),
            failed=producing.produce_failed,
        ),
        ApiRow(
            10,
            "FindCoordinator",
            FindCoordinatorRequest,
            FindCoordinatorResponse,
            (0, 6),
            find_coordinator,
            failed=find_coordinator_failed,
        ),
        ApiRow(
            21,
            "DeleteRecords",
            DeleteRecordsRequest,
            DeleteRecordsResponse,
            (0, 2),
            deletion.delete_records_plan(parts),
            failed=deletion.delete_records_failed,
        ),
        ApiRow(
            22,
            "InitProducerId",
            InitProducerIdRequest,
            InitProducerIdResponse,
            (0, 5),
            producer_ids.init_producer_id_plan,
            failed=producer_ids.init_producer_id_failed,
        ),
        ApiRow(29, "DescribeAcls", DescribeAclsRequest, DescribeAclsResponse, (1, 3), security.describe_acls),
        ApiRow(30, "CreateAcls", CreateAclsRequest, CreateAclsResponse, (1, 3), security.create_acls),
        ApiRow(31, "DeleteAcls", DeleteAclsRequest, DeleteAclsResponse, (1, 3), security.delete_acls),
        ApiRow(
            50,
            "DescribeUserScramCredentials",
            DescribeUserScramCredentialsRequest,
            DescribeUserScramCredentialsResponse,
            (0, 0),
            security.describe_user_scram_credentials,
        ),
        ApiRow(
            61,
            "DescribeProducers",
            DescribeProducersRequest,
            DescribeProducersResponse,
            (0, 0),
            description.describe_producers_plan(parts),
            failed=description.describe_producers_failed,
        ),
    ]
