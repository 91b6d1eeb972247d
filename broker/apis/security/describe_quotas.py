"""DescribeClientQuotas: what each user and client may have (KIP-546). Answered by this node's own image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.apis.served import Served
from broker.authorization.rules.ruling import of_cluster
from broker.network.request_channel import Request
from metadata.image import MetadataImage
from metadata.quotas import in_order
from penstock.errors import InvalidRequestError
from penstock.messages.security.acls import Operation
from penstock.messages.security.quota_apis import DESCRIBE_CLIENT_QUOTAS
from penstock.messages.security.quotas import (
    ENTITY_TYPES,
    ClientQuota,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    QuotaEntity,
    QuotaFilterPart,
    QuotaMatch,
    QuotaValue,
)


class DescribeQuotasApi:
    """Handles descriptions of quotas."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image

    def handle(self, request: Request, body: DescribeClientQuotasRequest) -> None:
        _check(body.parts)
        image = self._image()

        def is_wanted(entity: QuotaEntity) -> bool:
            has_more = len(entity.parts) > len(body.parts)
            return not (body.strict and has_more) and all(part.finds(entity) for part in body.parts)

        found = tuple(
            ClientQuota(entity, tuple(QuotaValue(key, value) for key, value in sorted(image.quotas[entity].items())))
            for entity in in_order(image.quotas)
            if is_wanted(entity)
        )
        request.complete(DescribeClientQuotasResponse(found, image.offset))


def _check(parts: tuple[QuotaFilterPart, ...]) -> None:
    named = [part.entity_type for part in parts]
    for kind, match, _ in parts:
        if kind not in ENTITY_TYPES:
            raise InvalidRequestError(f"there are no quotas of {kind[:64]!r}; there are {', '.join(ENTITY_TYPES)}")
        if named.count(kind) > 1:
            raise InvalidRequestError(f"the filter names {kind} twice")
        if match is QuotaMatch.UNKNOWN:
            raise InvalidRequestError(
                "the filter has a word that this node does not know: the client may be newer than the cluster"
            )


SERVED: Final = (
    Served(
        api=DESCRIBE_CLIENT_QUOTAS,
        rule=of_cluster(Operation.DESCRIBE_CONFIGS),
        make=lambda parts: DescribeQuotasApi(parts.image).handle,
    ),
)
