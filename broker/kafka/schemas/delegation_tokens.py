"""Delegation tokens: made, renewed, expired and described."""

from __future__ import annotations

from broker.kafka_codec.fields import Bytes, array, bytes_, int16, int32, int64, string
from broker.kafka_codec.structs import message, struct


@struct
class CreatableRenewers:
    principal_type: str = string()
    principal_name: str = string()


@message(key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenRequest:
    owner_principal_type: str | None = string("3+", null="0+", default=None)
    owner_principal_name: str | None = string("3+", null="0+", default=None)
    renewers: list[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()


@message(key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenResponse:
    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: Bytes = bytes_()
    throttle_time_ms: int = int32()


@message(key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenRequest:
    hmac: Bytes = bytes_()
    renew_period_ms: int = int64()


@message(key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenResponse:
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()


@message(key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenRequest:
    hmac: Bytes = bytes_()
    expiry_time_period_ms: int = int64()


@message(key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenResponse:
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()


@struct
class DescribeDelegationTokenOwner:
    principal_type: str = string()
    principal_name: str = string()


@message(key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenRequest:
    owners: list[DescribeDelegationTokenOwner] | None = array(DescribeDelegationTokenOwner, null="0+")


@struct
class DescribedDelegationTokenRenewer:
    principal_type: str = string()
    principal_name: str = string()


@struct
class DescribedDelegationToken:
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: Bytes = bytes_()
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer)


@message(key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenResponse:
    error_code: int = int16()
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32()
