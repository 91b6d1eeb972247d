"""Messages that records of the log hold: control records and those of the quorum."""

from __future__ import annotations

from broker.kafka_codec.fields import array, boolean, int16, int32, int64, nested, string, uint16, uuid
from broker.kafka_codec.structs import message, struct


@message(versions="0")
class ControlRecordTypeSchema:
    type: int = int16()


@message(versions="0", flexible="0+")
class DefaultPrincipalData:
    type: str = string()
    name: str = string()
    token_authenticated: bool = boolean()


@message(versions="0")
class EndTxnMarker:
    coordinator_epoch: int = int32()


@message(versions="0", flexible="0+")
class KRaftVersionRecord:
    version: int = int16()
    kraft_version: int = int16()


@struct
class LeaderChangeMessageVoter:
    voter_id: int = int32()
    voter_directory_id: str = uuid("1+")


@message(versions="0-1", flexible="0+")
class LeaderChangeMessage:
    version: int = int16()
    leader_id: int = int32()
    voters: list[LeaderChangeMessageVoter] = array(LeaderChangeMessageVoter)
    granting_voters: list[LeaderChangeMessageVoter] = array(LeaderChangeMessageVoter)


@message(versions="0", flexible="0+")
class SnapshotFooterRecord:
    version: int = int16()


@message(versions="0", flexible="0+")
class SnapshotHeaderRecord:
    version: int = int16()
    last_contained_log_timestamp: int = int64()


@struct
class VotersRecordEndpoint:
    name: str = string()
    host: str = string()
    port: int = uint16()


@struct
class KRaftVersionFeature:
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@struct
class VotersRecordVoter:
    voter_id: int = int32()
    voter_directory_id: str = uuid()
    endpoints: list[VotersRecordEndpoint] = array(VotersRecordEndpoint)
    kraft_version_feature: KRaftVersionFeature = nested(KRaftVersionFeature)


@message(versions="0", flexible="0+")
class VotersRecord:
    version: int = int16()
    voters: list[VotersRecordVoter] = array(VotersRecordVoter)
