"""One broker of a fake cluster: what it answers to each request. Its state is the cluster's (fake_broker.py)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from google.protobuf.message_factory import GetMessageClass

from penstock.epochs import diverging_epoch
from penstock.errors import (
    ERRORS,
    ApiError,
    BrokerIdNotRegisteredError,
    ControllerIdNotRegisteredError,
    DuplicateVoterError,
    ElectionNotNeededError,
    InvalidPartitionsError,
    InvalidRecordError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    NetworkError,
    NotControllerError,
    OffsetOutOfRangeError,
    PolicyViolationError,
    TopicAuthorizationFailedError,
    TopicExistsError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
    VoterNotFoundError,
)
from penstock.pb import acls_pb2, common_pb2, configs_pb2, elections_pb2, features_pb2, log_dirs_pb2, voters_pb2
from penstock.pb import broker_pb2 as pb
from penstock.types import NO_OFFSET, LeaderHint, TopicPartition
from penstock.wire.error_message import error_to_message
from tests.support.fake_groups import GROUP_APIS
from tests.support.fake_network import ServedStream

if TYPE_CHECKING:
    from tests.support.fake_broker import FakeCluster

METADATA_LINES = b'{"type":"Topic","name":"a"}\n{"type":"Topic","name":"b"}\n'
SERVICE = "/penstock.v1.Broker/"
STREAMS = (SERVICE + "Produce", SERVICE + "Fetch")
REQUESTS: dict[str, Any] = {
    method.name: GetMessageClass(method.input_type) for method in pb.DESCRIPTOR.services_by_name["Broker"].methods
}


async def _requests(message: Any, stream: ServedStream) -> AsyncIterator[Any]:
    while True:
        yield message.FromString(await stream.read())


def encode_error(error: ApiError) -> common_pb2.Error:
    """The message that a node makes of it."""
    made = error_to_message(error)
    assert made is not None
    return made


def _unknown(topic: str) -> ApiError:
    return UnknownTopicOrPartitionError(f"topic {topic} is not known")


class FakeNode:
    """One broker's listener (fake_network.Service)."""

    def __init__(self, cluster: FakeCluster, node_id: int) -> None:
        self._cluster = cluster
        self._node_id = node_id

    def is_stream(self, method: str) -> bool:
        return method in STREAMS

    async def call(self, method: str, request: bytes) -> bytes:
        api = method.removeprefix(SERVICE)
        transactions = self._cluster.transactions
        if transactions is not None and transactions.takes(api, request):
            return await transactions.call(self._node_id, api, request)
        coordinator = self._cluster.coordinator
        if coordinator is not None and api in coordinator.apis:
            return await coordinator.call(self._node_id, api, request)
        if api in GROUP_APIS:
            return self._cluster.groups.answer(self._node_id, api, request)
        return bytes(getattr(self, api)(REQUESTS[api].FromString(request)).SerializeToString())

    async def stream(self, method: str, stream: ServedStream) -> None:
        api = method.removeprefix(SERVICE)
        requests = _requests(REQUESTS[api], stream)
        task = asyncio.current_task()
        streams = self._cluster.tasks_of_streams(self._node_id)
        streams[task] = None
        try:
            async for answer in self._produce(requests, stream) if api == "Produce" else self._fetch(requests):
                await stream.write(answer.SerializeToString())
        except asyncio.CancelledError as cancelled:
            if cancelled.args:  # by the test, not by the client
                raise NetworkError(*cancelled.args) from None
            raise
        finally:
            streams.pop(task)

    async def _produce(self, requests: Any, stream: ServedStream) -> AsyncIterator[Any]:
        cluster = self._cluster
        async for request in requests:
            if cluster.keep_requests:
                cluster.produced.append((self._node_id, request))
            if cluster.on_produce is not None:
                cluster.on_produce(self._node_id, request)
            answer = pb.ProduceResponse(correlation_id=request.correlation_id)
            for part in request.partitions:
                result = self._append(part)
                if request.acks != 0:
                    answer.partitions.append(result)
            cluster.grow()
            await self._keep_back(request, answer, stream)
            if not cluster.is_silent(self._node_id):
                yield answer

    async def _keep_back(self, request: pb.ProduceRequest, answer: pb.ProduceResponse, stream: ServedStream) -> None:
        """Takes out what stands still, and tells it when all of it goes on. A client that takes no parts waits."""
        kept = [result for result in answer.partitions if self._cluster.standing_still(result)]
        if not kept:
            return
        if not request.answer_in_parts:
            await asyncio.gather(*(self._cluster.standing_still(result) for result in kept))
            return
        rest = pb.ProduceResponse(correlation_id=request.correlation_id, partitions=kept)
        answered = [result for result in answer.partitions if result not in kept]
        del answer.partitions[:]
        answer.partitions.extend(answered)
        answer.more_follows = True

        async def tell_rest() -> None:
            await asyncio.gather(*(self._cluster.standing_still(result) for result in kept))
            await stream.write(rest.SerializeToString())

        self._cluster.keep(asyncio.ensure_future(tell_rest()))

    def _append(self, part: pb.PartitionRecords) -> pb.PartitionProduceResult:
        tp = TopicPartition(part.topic, part.partition)
        result = pb.PartitionProduceResult(topic=part.topic, partition=part.partition, log_append_time_ms=-1)
        error = self._cluster.leadership_error(self._node_id, part)
        if error is None and (bad := self._cluster.bad_records(part.records)):
            error = encode_error(InvalidRecordError("some records are bad"))
            result.record_errors.extend(pb.RecordError(batch_index=at, message=why) for at, why in bad.items())
        error = error or self._cluster.next_error("produce", tp)
        if error is not None:
            result.error.CopyFrom(error)
        if error is None or not (error.nothing_written or ERRORS[error.code].nothing_written):
            try:
                if self._cluster.transactions is not None:
                    self._cluster.transactions.check(part.records)
                result.base_offset = self._cluster.logs[tp].append_produced(part.records, self._node_id)
            except ApiError as refusal:
                result.error.CopyFrom(encode_error(refusal))
        return result

    async def _fetch(self, requests: Any) -> AsyncIterator[Any]:
        session: dict[TopicPartition, pb.FetchPartition] = {}
        ended = self._cluster.ended[self._node_id]
        async for request in requests:
            if self._cluster.keep_requests:
                self._cluster.fetches.append((self._node_id, request))
            if self._cluster.fetch_refusals:
                raise self._cluster.fetch_refusals.popleft()
            for part in request.partitions:
                session[TopicPartition(part.topic, part.partition)] = part
            for gone in request.forgotten:
                session.pop(TopicPartition(gone.topic, gone.partition), None)
            loop = asyncio.get_running_loop()
            until = loop.time() + request.max_wait_ms / 1000
            while True:
                if self._cluster.ended[self._node_id] != ended:
                    return
                results = [r for tp, part in session.items() if (r := self._read(tp, part, request)) is not None]
                left = until - loop.time()
                if results or left <= 0:
                    break
                await self._cluster.wait_grown(left)
            yield pb.FetchResponse(correlation_id=request.correlation_id, partitions=results)

    def _read(
        self, tp: TopicPartition, part: pb.FetchPartition, request: pb.FetchRequest
    ) -> pb.PartitionFetchResult | None:
        result = pb.PartitionFetchResult(
            topic=tp.topic, partition=tp.partition, topic_id=part.topic_id, fetch_offset=part.fetch_offset
        )
        error = self._cluster.leadership_error(self._node_id, part) or self._cluster.next_error("fetch", tp)
        if error is not None:
            result.error.CopyFrom(error)
            return result
        log = self._cluster.logs[tp]
        result.high_watermark, result.log_start_offset = log.end_offset, log.log_start_offset
        diverging = diverging_epoch(log.epochs, log.end_offset, part.fetch_offset, part.last_fetched_epoch)
        if diverging is not None:
            result.diverging_epoch.epoch, result.diverging_epoch.end_offset = diverging
            return result
        if not log.log_start_offset <= part.fetch_offset <= log.end_offset:
            bounds = {"log_start_offset": log.log_start_offset, "log_end_offset": log.end_offset}
            result.error.CopyFrom(encode_error(OffsetOutOfRangeError("out of range", **bounds)))
            return result
        result.last_stable_offset = log.last_stable_offset
        result.records = log.read(part.fetch_offset, min(part.max_bytes, request.max_bytes))
        if request.read_committed:
            result.records = log.stable(result.records)
            result.aborted.extend(
                pb.AbortedTransaction(producer_id=producer_id, first_offset=first)
                for producer_id, first, last in log.aborted
                if last >= part.fetch_offset
            )
        return result if result.records else None

    def ListOffsets(self, request: Any) -> Any:
        answer = pb.ListOffsetsResponse()
        for part in request.partitions:
            tp = TopicPartition(part.topic, part.partition)
            result = answer.partitions.add(topic=part.topic, partition=part.partition, offset=-1, timestamp_ms=-1)
            error = self._cluster.leadership_error(self._node_id, part)
            if error is not None:
                result.error.CopyFrom(error)
                continue
            log = self._cluster.logs[tp]
            result.leader_epoch = log.epoch
            if part.timestamp_ms == -1:
                result.offset = log.last_stable_offset if request.read_committed else log.end_offset
            elif part.timestamp_ms == -2:
                result.offset = log.log_start_offset
            else:
                for base, _, _, max_timestamp_ms in log.batches:
                    if max_timestamp_ms >= part.timestamp_ms:
                        result.offset, result.timestamp_ms = base, max_timestamp_ms
                        break
        return answer

    def Metadata(self, request: Any) -> Any:
        self._cluster.metadata_requests += 1
        return self._cluster.frozen_metadata.get(self._node_id) or self.metadata(request)

    def metadata(self, request: Any) -> pb.MetadataResponse:
        cluster = self._cluster
        answer = pb.MetadataResponse(
            cluster_id=cluster.cluster_id, controller_id=cluster.controller_id, metadata_offset=cluster.heard_offset
        )
        cluster.heard_offset += 1
        answer.brokers.extend(self._brokers())
        names = cluster.topics if request.all_topics else request.topics
        hidden = cluster.hide_topics_for > 0
        cluster.hide_topics_for -= hidden
        for name in names:
            topic = answer.topics.add(name=name)
            if name not in cluster.topics or hidden:
                topic.error.CopyFrom(encode_error(UnknownTopicOrPartitionError(f"{name} is not known")))
                continue
            topic.topic_id = cluster.topics[name]
            topic.config.update(cluster.configs[name])
            for tp, log in cluster.logs.items():
                if tp.topic == name:
                    topic.partitions.add(
                        partition=tp.partition,
                        leader_id=log.leader_id,
                        leader_epoch=log.epoch,
                        replicas=cluster.assignments.get(tp, [log.leader_id]),
                        isr=[log.leader_id],
                        log_dirs=[f"dir-{log.leader_id}"] if request.include_log_dirs else [],
                    )
        return answer

    def _brokers(self) -> list[common_pb2.Node]:
        at = self._cluster.endpoints
        return [common_pb2.Node(node_id=n, host=at[n].host, port=at[n].port) for n in self._cluster.node_ids]

    def CreateTopics(self, request: Any) -> Any:
        answer = pb.CreateTopicsResponse()
        for topic in request.topics:
            result = answer.topics.add(name=topic.name)
            if self._node_id != self._cluster.controller_id:
                controller = LeaderHint(
                    self._cluster.controller_id, 0, self._cluster.endpoints[self._cluster.controller_id]
                )
                result.error.CopyFrom(encode_error(NotControllerError("not the controller", leader=controller)))
            elif topic.name in self._cluster.topics:
                result.error.CopyFrom(encode_error(TopicExistsError(f"topic {topic.name} exists")))
            elif not request.validate_only:
                count = max(topic.partitions, len(topic.assignment), 1)
                self._cluster.create_topic(topic.name, count, dict(topic.config))
                self._cluster.assign(topic.name, topic.assignment)
                result.topic_id = self._cluster.topics[topic.name]
                if self._cluster.loses_next_creation:
                    self._cluster.loses_next_creation = False
                    raise NetworkError("the answer got lost")
        return answer

    def CreatePartitions(self, request: Any) -> Any:
        cluster = self._cluster
        if cluster.on_create_partitions is not None:
            cluster.on_create_partitions(request)
        answer = pb.CreatePartitionsResponse(metadata_offset=cluster.metadata_offset)
        for topic in request.topics:
            result = answer.topics.add(name=topic.name)
            present = sum(tp.topic == topic.name for tp in cluster.logs)
            by_hand = {a.partition: tuple(a.replicas) for a in topic.assignment}
            if cluster.topics.get(topic.name) != topic.topic_id:
                result.error.CopyFrom(encode_error(UnknownTopicIdError(f"{topic.name} has another id")))
            elif topic.total <= present:
                result.error.CopyFrom(encode_error(InvalidPartitionsError(f"{topic.name} has {present} partitions")))
                same = all(cluster.assignments.get(TopicPartition(topic.name, p)) == r for p, r in by_hand.items())
                result.partitions = present if topic.total == present and same else 0
            elif not request.validate_only:
                for partition in range(present, topic.total):
                    leader = by_hand.get(partition, cluster.node_ids)[0]
                    cluster.add_partition(topic.name, partition, leader)
                cluster.assign(topic.name, topic.assignment)
        if cluster.loses_next_growth:
            cluster.loses_next_growth = False
            raise NetworkError("the answer got lost")
        return answer

    def DeleteTopics(self, request: Any) -> Any:
        answer = pb.DeleteTopicsResponse()
        cluster = self._cluster
        for topic_id in request.topic_ids:
            result = answer.topics.add(topic_id=topic_id)
            name = next((name for name, found in cluster.topics.items() if found == topic_id), None)
            if name is None:
                result.error.CopyFrom(encode_error(UnknownTopicIdError(f"no topic has the id {topic_id}")))
            else:
                cluster.delete_topic(name)
        if cluster.on_delete_topics is not None:
            after, cluster.on_delete_topics = cluster.on_delete_topics, None
            after()
            raise NetworkError("the answer got lost")
        return answer

    def DeleteRecords(self, request: Any) -> Any:
        cluster = self._cluster
        cluster.deletions.append((self._node_id, request))
        after, cluster.on_delete_records = cluster.on_delete_records, None
        answer = pb.DeleteRecordsResponse()
        for part in request.partitions:
            tp = TopicPartition(part.topic, part.partition)
            result = answer.partitions.add(topic=part.topic, partition=part.partition, low_watermark=-1)
            error = cluster.leadership_error(self._node_id, part) or cluster.next_error("delete", tp)
            if error is not None:
                result.error.CopyFrom(error)
                continue
            if part.before_offset > cluster.logs[tp].log_start_offset:
                cluster.delete_below(*tp, part.before_offset)
            result.low_watermark = cluster.logs[tp].log_start_offset
        if after is not None:
            after()
        return answer

    def DescribeProducers(self, request: Any) -> Any:
        cluster, answer = self._cluster, pb.DescribeProducersResponse()
        for part in request.partitions:
            tp = TopicPartition(part.topic, part.partition)
            result = answer.partitions.add(topic=part.topic, partition=part.partition)
            error = cluster.leadership_error(self._node_id, part)
            if error is not None:
                result.error.CopyFrom(error)
                continue
            for state in cluster.known_producers.get(tp, ()):
                result.producers.add(
                    producer_id=state.producer_id,
                    producer_epoch=state.producer_epoch,
                    last_sequence=state.last_sequence,
                    last_append_ms=state.last_append_ms,
                    coordinator_epoch=state.coordinator_epoch,
                    transaction_start_offset=state.transaction_start_offset,
                )
        return answer

    def InitProducerId(self, request: Any) -> Any:
        cluster = self._cluster
        if cluster.producer_id_refusals:
            raise cluster.producer_id_refusals.popleft()
        cluster.producer_ids_given += 1
        return pb.InitProducerIdResponse(producer_id=cluster.producer_ids_given - 1, producer_epoch=0)

    def AlterConfigs(self, request: Any) -> Any:
        cluster = self._cluster
        cluster.alterations.append(request)
        answer = configs_pb2.AlterConfigsResponse(metadata_offset=cluster.metadata_offset)
        for resource in request.resources:
            result = answer.resources.add(resource_type=resource.resource_type, resource_name=resource.resource_name)
            if resource.resource_type == "broker":
                config = cluster.broker_configs.setdefault(resource.resource_name, {})
                for change in () if request.validate_only else resource.changes:
                    config.pop(change.key, None)
                    if change.operation == configs_pb2.CONFIG_OPERATION_SET:
                        config[change.key] = change.value
            elif resource.resource_name not in cluster.topics:
                result.error.CopyFrom(encode_error(_unknown(resource.resource_name)))
            elif not request.validate_only:
                for change in resource.changes:
                    cluster.configs[resource.resource_name][change.key] = change.value
        return answer

    def ElectLeaders(self, request: Any) -> Any:
        """The preferred leader of every partition is node 1."""
        cluster = self._cluster
        answer = elections_pb2.ElectLeadersResponse(metadata_offset=cluster.metadata_offset)
        named = {TopicPartition(asked.topic, number) for asked in request.topics for number in asked.partitions}
        for tp in sorted(cluster.logs) if request.all_partitions else sorted(named):
            needed = tp in cluster.logs and cluster.logs[tp].leader_id != 1
            if needed:
                cluster.move_leader(*tp, 1)
            elif request.all_partitions:
                continue
            result = answer.partitions.add(topic=tp.topic, partition=tp.partition, leader_id=1)
            if not needed:
                result.error.CopyFrom(encode_error(ElectionNotNeededError(f"{tp} is led by node 1")))
        if cluster.loses_next_election:
            cluster.loses_next_election = False
            raise NetworkError("the answer got lost")
        return answer

    def UnregisterBroker(self, request: Any) -> Any:
        cluster, broker_id = self._cluster, request.broker_id
        answer = pb.UnregisterBrokerResponse(metadata_offset=cluster.metadata_offset)
        if broker_id not in (*cluster.node_ids, *cluster.extra_brokers):
            answer.error.CopyFrom(encode_error(BrokerIdNotRegisteredError(f"broker {broker_id} is not registered")))
        elif not cluster.extra_brokers.get(broker_id, False):
            answer.error.CopyFrom(encode_error(PolicyViolationError(f"broker {broker_id} runs")))
        else:
            del cluster.extra_brokers[broker_id]
        if cluster.loses_next_unregistration:
            cluster.loses_next_unregistration = False
            raise NetworkError("the answer got lost")
        return answer

    def DescribeConfigs(self, request: Any) -> Any:
        lagging = self._cluster.frozen_metadata.get(self._node_id)
        topics = {topic.name: topic.config for topic in lagging.topics} if lagging else self._cluster.configs
        heard = lagging.metadata_offset if lagging else self._cluster.heard_offset
        answer = configs_pb2.DescribeConfigsResponse(metadata_offset=heard)
        for resource in request.resources:
            result = answer.resources.add(resource_type=resource.resource_type, resource_name=resource.resource_name)
            if resource.resource_name in self._cluster.refused_configs:
                result.error.CopyFrom(encode_error(TopicAuthorizationFailedError("it may not DescribeConfigs")))
                answer.metadata_offset = NO_OFFSET
            elif resource.resource_type == "broker":
                for key, value in self._cluster.broker_configs.get(resource.resource_name, {}).items():
                    result.configs.add(key=key, value=value, source=2 if resource.resource_name else 3)
                if resource.resource_name:
                    result.configs.add(key="node.id", value=str(self._node_id), source=4, is_read_only=True)
            elif resource.resource_name not in self._cluster.topics:
                result.error.CopyFrom(encode_error(_unknown(resource.resource_name)))
            else:
                for key, value in topics[resource.resource_name].items():
                    result.configs.add(key=key, value=value, source=1, type="string", documentation="says nothing")
                result.configs.add(key="segment.bytes", value="1", source=5, type="int")
        return answer

    def DescribeCluster(self, request: Any) -> Any:
        answer = pb.DescribeClusterResponse(
            cluster_id=self._cluster.cluster_id, controller_id=self._cluster.controller_id
        )
        answer.brokers.extend(self._brokers())
        for broker_id in self._cluster.extra_brokers:
            answer.brokers.add(node_id=broker_id, host="gone", port=9192, rack="r", fenced=True)
        answer.standing.node_id = self._node_id
        change = self._cluster.on_describe_cluster.get(self._node_id)
        if change is not None:
            change(answer)
        return answer

    def DescribeQuorum(self, request: Any) -> Any:
        cluster = self._cluster
        answer = pb.DescribeQuorumResponse(
            leader_id=1, leader_epoch=3, high_watermark=7, is_dynamic=cluster.has_dynamic_quorum
        )
        for node_id, (directory_id, address) in cluster.voters.items():
            host, port = address.split(":")
            voter = answer.voters.add(
                node_id=node_id, log_end_offset=8 - node_id, last_fetch_ms_ago=0, last_caught_up_ms_ago=node_id
            )
            voter.directory_id = directory_id if cluster.has_dynamic_quorum else ""
            voter.endpoints.add(name="CONTROLLER", host=host, port=int(port))
        for node_id in sorted(self._cluster.observers_away):
            answer.observers.add(node_id=node_id, log_end_offset=-1, last_fetch_ms_ago=-1)
        return answer

    def CreateAcls(self, request: Any) -> Any:
        """Everybody may change the cluster."""
        return acls_pb2.CreateAclsResponse(metadata_offset=self._cluster.metadata_offset)

    def AddVoter(self, request: Any) -> Any:
        cluster, answer = self._cluster, voters_pb2.AddVoterResponse(metadata_offset=self._cluster.metadata_offset)
        (at,) = request.endpoints
        if not cluster.has_dynamic_quorum:
            answer.error.CopyFrom(encode_error(UnsupportedVersionError("make the quorum dynamic first")))
        elif known := cluster.voters.get(request.voter_id):
            answer.error.CopyFrom(encode_error(DuplicateVoterError(f"node {request.voter_id} is a voter already")))
            answer.is_so_already = known[0] == request.directory_id
        else:
            cluster.voters[request.voter_id] = request.directory_id, f"{at.host}:{at.port}"
        return self._lost_or(answer)

    def RemoveVoter(self, request: Any) -> Any:
        cluster, answer = self._cluster, voters_pb2.RemoveVoterResponse(metadata_offset=self._cluster.metadata_offset)
        if cluster.voters.get(request.voter_id, ("", ""))[0] == request.directory_id:
            del cluster.voters[request.voter_id]
        else:
            answer.error.CopyFrom(encode_error(VoterNotFoundError(f"no voter has the id {request.voter_id}")))
            answer.is_so_already = True
        return self._lost_or(answer)

    def UnregisterController(self, request: Any) -> Any:
        cluster, node_id = self._cluster, request.controller_id
        answer = voters_pb2.UnregisterControllerResponse(metadata_offset=-1)
        if node_id in cluster.voters:
            answer.error.CopyFrom(encode_error(PolicyViolationError(f"controller {node_id} is a voter")))
        elif node_id not in cluster.observers_away:
            answer.error.CopyFrom(encode_error(ControllerIdNotRegisteredError(f"no controller {node_id}")))
            answer.is_so_already = True
        cluster.observers_away.discard(node_id)
        return self._lost_or(answer)

    def DescribeFeatures(self, request: Any) -> Any:
        answer = features_pb2.DescribeFeaturesResponse(metadata_offset=self._cluster.metadata_offset)
        for name, level in self._cluster.levels.items():
            feature = answer.features.add(name=name, first=0, last=2, level=level)
            feature.levels.add(level=1, since="0.2.0", allows="what was")
            feature.levels.add(level=2, since="0.3.0", allows="more")
        node = answer.nodes.add(node_id=0, is_voter=True, is_broker=True)
        node.ranges.add(name="metadata.version", first=1, last=self._cluster.supported)
        answer.nodes.add(node_id=1, is_broker=True, last_heard_ms_ago=-1)
        return answer

    def UpdateFeatures(self, request: Any) -> Any:
        cluster = self._cluster
        answer = features_pb2.UpdateFeaturesResponse(metadata_offset=cluster.metadata_offset)
        for update in request.updates:
            result = answer.results.add(name=update.name, level=cluster.levels.get(update.name, 0))
            if update.level > cluster.supported:
                result.error.CopyFrom(encode_error(InvalidUpdateVersionError(f"node 1 does not know {update.level}")))
                answer.error.CopyFrom(result.error)
                answer.hindrances.add(node_id=1, feature=update.name, reason="node 1 is too old")
            elif not request.validate_only:
                cluster.levels[update.name] = update.level
        return self._lost_or(answer)

    def MakeQuorumDynamic(self, request: Any) -> Any:
        cluster = self._cluster
        answer = voters_pb2.MakeQuorumDynamicResponse(metadata_offset=cluster.metadata_offset)
        if cluster.has_dynamic_quorum:
            answer.error.CopyFrom(encode_error(InvalidRequestError("the quorum is dynamic already")))
            answer.is_so_already = True
        cluster.has_dynamic_quorum = True
        return self._lost_or(answer)

    def _lost_or(self, answer: Any) -> Any:
        """The answer to a change of voters, unless this one gets lost."""
        if self._cluster.loses_next_voter_change:
            self._cluster.loses_next_voter_change = False
            raise NetworkError("the answer got lost")
        return answer

    def DescribeLogDirs(self, request: Any) -> Any:
        answer = log_dirs_pb2.DescribeLogDirsResponse(node_id=self._node_id)
        change = self._cluster.on_describe_log_dirs.get(self._node_id)
        if change is not None:
            change(request, answer)
        return answer

    def AlterReplicaLogDirs(self, request: Any) -> Any:
        answer = log_dirs_pb2.AlterReplicaLogDirsResponse(node_id=self._node_id)
        for log_dir in request.dirs:
            for topic in log_dir.topics:
                for partition in topic.partitions:
                    self._cluster.log_dir_moves.append((self._node_id, f"{topic.topic}-{partition}", log_dir.path))
                    answer.results.add(topic=topic.topic, partition=partition)
        change = self._cluster.on_alter_log_dirs.get(self._node_id)
        if change is not None:
            change(request, answer)
        return answer

    def DescribeMetadata(self, request: Any) -> Any:
        refusals = self._cluster.metadata_refusals[self._node_id]
        if refusals:
            raise refusals.popleft()
        lines = self._cluster.metadata_lines.get(self._node_id, METADATA_LINES)
        return pb.DescribeMetadataResponse(
            node_id=self._node_id,
            offset=self._cluster.heard_offset if request.offset == -1 else request.offset,
            epoch=3,
            records=lines.count(b"\n"),
            sha256=hashlib.sha256(lines).hexdigest(),
            size_bytes=len(lines),
            lines=lines[request.position :][: request.max_bytes],
        )
