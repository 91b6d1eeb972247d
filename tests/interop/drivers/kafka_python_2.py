"""Verbs of kafka-python 2, whose administrator's client has other calls and answers than that of 3."""

from __future__ import annotations

from typing import Any

from kafka import KafkaAdminClient, TopicPartition, errors
from kafka.admin import ConfigResource, ConfigResourceType

from tests.interop.drivers import login
from tests.interop.drivers.serve import RESET_TO, answers


class Admin2:
    def __init__(self, bootstrap: str) -> None:
        self._common = {"bootstrap_servers": bootstrap.split(","), **login.kafka_python()}
        self._lazy: KafkaAdminClient | None = None

    @property
    def _admin(self) -> Any:
        if self._lazy is None:
            self._lazy = KafkaAdminClient(**self._common)
        return self._lazy

    def describe(self, topic: str) -> dict[str, Any]:
        (found,) = self._admin.describe_topics([topic])
        if found["error_code"]:
            raise errors.for_code(found["error_code"])(topic)
        partitions = sorted(found["partitions"], key=lambda p: p.get("partition", p.get("partition_index")))
        return {"partitions": [{"leader": p["leader"], "replicas": p["replicas"], "isr": p["isr"]} for p in partitions]}

    def cluster(self) -> dict[str, Any]:
        found = self._admin.describe_cluster()
        nodes = {node["node_id"]: f"{node['host']}:{node['port']}" for node in found["brokers"]}
        return {"cluster_id": found["cluster_id"], "nodes": nodes}

    def configs(self, topic: str) -> dict[str, Any]:
        (answer,) = self._admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        ((error, message, _, _, entries),) = answer.resources
        if error:
            raise RuntimeError(message)
        return {"configs": {entry[0]: entry[1] for entry in entries}}

    def alter_configs(self, topic: str, configs: dict[str, str]) -> None:
        answer = self._admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs)])
        for error, message, *_ in answer.resources:
            if error:
                raise RuntimeError(message)

    def operate(self, topic: str) -> dict[str, Any]:
        admin = self._admin
        node = ConfigResource(ConfigResourceType.BROKER, str(admin.describe_cluster()["brokers"][0]["node_id"]))
        return answers(
            {
                "log dirs": lambda: admin.describe_log_dirs(),
                "broker configs": lambda: admin.describe_configs([node]),
                "list topics": lambda: topic in admin.list_topics(),
            }
        )

    def committed(self, topic: str, group: str) -> dict[str, Any]:
        found = self._admin.list_consumer_group_offsets(group)
        return {"offsets": {at.partition: one.offset for at, one in found.items() if at.topic == topic}}

    def administer(self, topic: str, group: str) -> dict[str, Any]:
        admin = self._admin

        def delete() -> bool:
            ((_, error),) = admin.delete_consumer_groups([group])
            return error is errors.NoError and group not in listed()

        def listed() -> list[str]:
            return [name for name, _ in admin.list_consumer_groups()]

        return answers(
            {
                "list": lambda: group in listed(),
                "describe": lambda: admin.describe_consumer_groups([group])[0].state == "Empty",
                "offsets": lambda: admin.list_consumer_group_offsets(group)[TopicPartition(topic, 0)].offset > RESET_TO,
                "delete": delete,
            }
        )
