"""The configuration of topics and brokers, and the quotas of clients."""

from __future__ import annotations

from broker.kafka_codec.fields import array, boolean, float64, int8, int16, int32, string
from broker.kafka_codec.structs import message, struct


@struct
class DescribeConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array(string, null="0+")


@message(key=32, versions="1-4", flexible="4+")
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean()
    include_documentation: bool = boolean("3+")


@struct
class DescribeConfigsSynonym:
    name: str = string()
    value: str | None = string(null="0+", default=None)
    source: int = int8()


@struct
class DescribeConfigsResourceResult:
    name: str = string()
    value: str | None = string(null="0+", default=None)
    read_only: bool = boolean()
    config_source: int = int8(ignorable=True, default=-1)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, ignorable=True)
    config_type: int = int8("3+", ignorable=True)
    documentation: str | None = string("3+", null="0+", ignorable=True, default=None)


@struct
class DescribeConfigsResult:
    error_code: int = int16()
    error_message: str | None = string(null="0+", default=None)
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


@message(key=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse:
    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult, encoded=True)


@struct
class AlterConfigsRequestAlterableConfig:
    name: str = string()
    value: str | None = string(null="0+", default=None)


@struct
class AlterConfigsRequestAlterConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterConfigsRequestAlterableConfig] = array(AlterConfigsRequestAlterableConfig)


@message(key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest:
    resources: list[AlterConfigsRequestAlterConfigsResource] = array(AlterConfigsRequestAlterConfigsResource)
    validate_only: bool = boolean()


@struct
class AlterConfigsResourceResponse:
    error_code: int = int16()
    error_message: str | None = string(null="0+", default=None)
    resource_type: int = int8()
    resource_name: str = string()


@message(key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse:
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)


@struct
class IncrementalAlterConfigsRequestAlterableConfig:
    name: str = string()
    config_operation: int = int8()
    value: str | None = string(null="0+", default=None)


@struct
class IncrementalAlterConfigsRequestAlterConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[IncrementalAlterConfigsRequestAlterableConfig] = array(IncrementalAlterConfigsRequestAlterableConfig)


@message(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    resources: list[IncrementalAlterConfigsRequestAlterConfigsResource] = array(
        IncrementalAlterConfigsRequestAlterConfigsResource
    )
    validate_only: bool = boolean()


@message(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)


@message(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    resource_types: list[int] = array(int8, "1+")


@struct
class ConfigResource:
    resource_name: str = string()
    resource_type: int = int8("1+", ignorable=True, default=16)


@message(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)


@struct
class ComponentData:
    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(null="0+", default=None)


@message(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    components: list[ComponentData] = array(ComponentData)
    strict: bool = boolean()


@struct
class EntityData:
    entity_type: str = string()
    entity_name: str | None = string(null="0+", default=None)


@struct
class ValueData:
    key: str = string()
    value: float = float64()


@struct
class DescribeClientQuotasResponseEntryData:
    entity: list[EntityData] = array(EntityData)
    values: list[ValueData] = array(ValueData)


@message(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(null="0+", default=None)
    entries: list[DescribeClientQuotasResponseEntryData] | None = array(
        DescribeClientQuotasResponseEntryData, null="0+"
    )


@struct
class OpData:
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


@struct
class AlterClientQuotasRequestEntryData:
    entity: list[EntityData] = array(EntityData)
    ops: list[OpData] = array(OpData)


@message(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    entries: list[AlterClientQuotasRequestEntryData] = array(AlterClientQuotasRequestEntryData)
    validate_only: bool = boolean()


@struct
class AlterClientQuotasResponseEntryData:
    error_code: int = int16()
    error_message: str | None = string(null="0+", default=None)
    entity: list[EntityData] = array(EntityData)


@message(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    throttle_time_ms: int = int32()
    entries: list[AlterClientQuotasResponseEntryData] = array(AlterClientQuotasResponseEntryData)
