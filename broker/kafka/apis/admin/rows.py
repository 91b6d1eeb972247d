"""The rows of the APIs that look at the cluster and change it."""

from __future__ import annotations

from broker.kafka.api_row import ApiRow
from broker.kafka.apis.metadata import MetadataPlans, metadata_failed
from broker.kafka.parts import DoorParts
from broker.kafka.schemas.metadata import MetadataRequest, MetadataResponse


def admin_rows(parts: DoorParts) -> list[ApiRow]:
    """In the order of their keys."""
    return [
        ApiRow(3, "Metadata", MetadataRequest, MetadataResponse, (0, 13), MetadataPlans(parts), failed=metadata_failed),
    ]
