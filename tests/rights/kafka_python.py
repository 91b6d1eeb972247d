"""The names of kafka-python that the tools use. It loads its schemas by a function that Python has deprecated."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer as KafkaConsumer
    from kafka import KafkaProducer as KafkaProducer
    from kafka import TopicPartition as TopicPartition
    from kafka.admin import ACLFilter as ACLFilter
    from kafka.admin import ACLOperation as ACLOperation
    from kafka.admin import ACLPermissionType as ACLPermissionType
    from kafka.admin import ACLResourcePatternType as ACLResourcePatternType
    from kafka.admin import KafkaAdminClient as KafkaAdminClient
    from kafka.admin import ResourcePatternFilter as ResourcePatternFilter
    from kafka.admin import ResourceType as ResourceType
