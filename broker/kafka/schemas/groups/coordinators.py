"""FindCoordinator: the broker that coordinates groups and transactions."""

from __future__ import annotations

from broker.kafka_codec.fields import array, int8, int16, int32, string
from broker.kafka_codec.structs import message, struct


@message(key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array(string, "4+")


@struct
class Coordinator:
    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(null="0+", ignorable=True, default=None)


@message(key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", null="0+", ignorable=True, default=None)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")
