"""The content of a broker's registration: who it is, which replicas its log dirs hold, and why it was refused.

Kafka's BrokerRegistrationRequest (KIP-631), with the directory ids of KIP-858. Not here: when it registers, and what
follows from the answer (broker_lifecycle.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.config.node_config import NodeConfig
from broker.quorum.metadata_log import METADATA_PARTITION
from penstock.errors import InconsistentClusterIdError, InvalidRegistrationError, MetaPropertiesError
from penstock.messages.nodes.brokers import HostedReplicas, RegisterBrokerRequest
from storage.log_dirs.log_manager import LogManager


def registration(
    config: NodeConfig, cluster_id: str, incarnation_id: str, log_manager: LogManager, features: str
) -> RegisterBrokerRequest:
    """The first one of this process; `incarnation_id` is new for each process, `features` are the levels that it
    supports."""
    endpoint, inter_broker = config.advertised, config.inter_broker_advertised
    return RegisterBrokerRequest(
        cluster_id=cluster_id,
        broker_id=config.node_id,
        incarnation_id=incarnation_id,
        host=endpoint.host,
        port=endpoint.port,
        rack=config.broker_rack,
        previous_broker_epoch=log_manager.previous_broker_epoch,
        log_dirs=tuple(properties.directory_id for properties in log_manager.meta_properties.values()),
        failed_log_dirs=len(config.log_dirs) - len(log_manager.meta_properties),
        lost_log_dirs=config.lost_log_dirs,
        inter_broker_host=inter_broker.host,
        inter_broker_port=inter_broker.port,
        flush_policy=config.flush_policy,
        listeners=config.more_advertised,
        inter_broker_listener=config.inter_broker_listener_name,
        replicas=lost_replicas(log_manager, config.lost_log_dirs),
        features=features,
    )


def hosted_replicas(log_manager: LogManager) -> tuple[HostedReplicas, ...]:
    """The replicas whose logs the log dirs hold now. Damaged ones count as lost until they are repaired."""
    numbers: dict[tuple[str, str], list[int]] = {}
    for found in log_manager.logs():
        if found.topic_partition != METADATA_PARTITION and found.topic_id:
            place = found.topic_id, log_manager.directory_id(found.log_dir)
            numbers.setdefault(place, []).append(found.topic_partition.partition)
    return tuple(
        HostedReplicas(topic_id, tuple(sorted(held)), log_dir) for (topic_id, log_dir), held in numbers.items()
    )


def lost_replicas(log_manager: LogManager, lost_log_dirs: Sequence[str]) -> tuple[HostedReplicas, ...]:
    """The replicas of which only an unfinished copy is here: they were about to leave a log dir that is given up. The
    metadata may have the log dir of the copy already. Named in each such dir: which it was is not known."""
    here = log_manager.directory_ids(log_manager.meta_properties)
    gone = [log_dir for log_dir in lost_log_dirs if log_dir not in here]
    found = sorted(log_manager.replicas_without_log()) if gone else ()
    return tuple(HostedReplicas(topic_id, (number,), log_dir) for log_dir in gone for topic_id, number in found)


def as_refusal(error: BaseException, log_manager: LogManager) -> BaseException:
    """A final refusal by the controller is due to the log dirs, so the error gets their names."""
    if not isinstance(error, (InconsistentClusterIdError, InvalidRegistrationError)):
        return error
    known = log_manager.meta_properties.items()
    dirs = ", ".join(f"{path} (directory.id {properties.directory_id})" for path, properties in known)
    refusal = MetaPropertiesError(f"{error}. This node's log dirs: {dirs}")
    refusal.__cause__ = error
    return refusal
