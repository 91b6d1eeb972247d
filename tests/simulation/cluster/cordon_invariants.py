"""I97: no replica is placed on a cordoned broker, nor begins to move there (KIP-1066), judged record by record.

A broker is cordoned by the metadata right before the record, which are those of the decision: what its configuration
says, or that of all brokers, and else what it told of its log dirs. A replica that is there, or on its way, may stay:
so an order for a broker that has one is allowed, and the cancelling of a move. Written without the product's own
function. Not here: which of its log dirs a broker chooses (tests/unit/storage/log_dirs/).
"""

from __future__ import annotations

from metadata.image import MetadataImage
from metadata.records import PartitionChangeRecord, PartitionRecord, Record
from penstock.messages.configs import ConfigResource


def wrong_placement(image: MetadataImage, record: Record) -> str:
    """Names what is wrong with the record, in metadata as they were before it; "" if nothing is."""
    if isinstance(record, PartitionRecord):
        coming = set(record.replicas)
    elif isinstance(record, PartitionChangeRecord) and record.replicas is not None:
        topic = image.topics_by_id.get(record.topic_id)
        before = topic.partitions.get(record.partition) if topic is not None else None
        coming = set(record.replicas).difference(before.replicas if before is not None else ())
    else:
        return ""
    wrong = sorted(broker_id for broker_id in coming if is_cordoned_in(image, broker_id))
    return f"I97: cordoned broker {wrong[0]} gets a replica: {record}" if wrong else ""


def is_cordoned_in(image: MetadataImage, broker_id: int) -> bool:
    key, name = "cordoned.log.dirs", str(broker_id)
    for resource_name in (name, ""):
        text = image.configs.get(ConfigResource("broker", resource_name), {}).get(key)
        if text is not None:
            if text == "":
                return False
            if "*" in text.split(","):
                return True
            break
    broker = image.brokers.get(broker_id)
    if broker is None:
        return False
    reported = image.configs.get(ConfigResource("broker-cordon", name), {}).get("log.dir.ids", "").split(",")
    usable = [log_dir for log_dir in broker.log_dirs if log_dir not in broker.offline_log_dirs]
    return len(usable) > 0 and all(log_dir in reported for log_dir in usable)
