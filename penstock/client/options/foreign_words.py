"""The words that users of confluent-kafka, kafka-python and aiokafka write by habit, and the line to write here.

Such a word is refused, never taken for something else: the error has the line to write instead. The page
docs/from-other-clients.md explains the same; a test holds it against these tables. Not here: which options there are
(config.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn, TypeVar

from penstock.client.options.security_options import shown_value

ADDRESSES = ("bootstrap_servers", "metadata_broker_list", "bootstrap_server", "brokers")
RENAMED = {
    "compression_codec": "compression_type",
    "fetch_message_max_bytes": "max_partition_fetch_bytes",
    "fetch_wait_max_ms": "fetch_max_wait_ms",
    "max_batch_size": "batch_size",
    "max_in_flight": "max_in_flight_requests_per_connection",
    "message_max_bytes": "max_request_size",
    "message_send_max_retries": "retries",
    "message_timeout_ms": "delivery_timeout_ms",
    "queue_buffering_max_ms": "linger_ms",
    "request_required_acks": "acks",
    "sasl_mechanisms": "sasl_mechanism",
    "sasl_password": "password",
    "sasl_plain_password": "password",
    "sasl_plain_username": "username",
    "sasl_username": "username",
    "ssl_ca_location": "tls_ca",
    "ssl_cafile": "tls_ca",
    "ssl_certfile": "tls_cert",
    "ssl_certificate_location": "tls_cert",
    "ssl_key_location": "tls_key",
    "ssl_keyfile": "tls_key",
    "topic_metadata_refresh_interval_ms": "metadata_max_age_ms",
}
"""Options that are here by another name, with the same meaning and unit."""

COORDINATORS = "the brokers set it for all members of a group; leave the option out"
SERIALIZERS = "keys and values are bytes; encode and decode in your own code, like json.dumps(value).encode()"
TOKENS = "write token_provider=function, which returns a token as text, or token_file='shop.token'"
PROTOCOL = "leave it out: tls_ca='ca.pem' (or tls=True) encrypts, username and password log in"
FILES = "write tls_ca, tls_cert and tls_key, which are PEM files"
ABSENT = {
    "api_version": "there is nothing to choose; leave the option out",
    "consumer_timeout_ms": "poll(timeout_ms=...) returns an empty list when nothing comes",
    "enable_partition_eof": "compare position(partition) with end_offsets([partition])",
    "group_protocol": "it is always Kafka's new one, 'consumer' (KIP-848); leave the option out",
    "heartbeat_interval_ms": COORDINATORS,
    "key_deserializer": SERIALIZERS,
    "key_serializer": SERIALIZERS,
    "oauth_cb": TOKENS,
    "loop": "an async client works on the loop that runs it; leave the option out",
    "partition_assignment_strategy": "the coordinator assigns; write group_remote_assignor='range', or 'uniform'",
    "sasl_login_callback_handler_class": TOKENS,
    "sasl_oauth_token_provider": TOKENS,
    "sasl_jaas_config": "write username='alice', password_file='alice.password'",
    "security_protocol": PROTOCOL,
    "session_timeout_ms": COORDINATORS,
    "ssl_check_hostname": "names are always checked; tls_server_name='broker-1' is another name than the address has",
    "ssl_context": FILES,
    "ssl_keystore_location": FILES,
    "ssl_truststore_location": "write tls_ca='ca.pem'",
    "value_deserializer": SERIALIZERS,
    "value_serializer": SERIALIZERS,
}
"""Options whose matter is not here, and what to do."""

CLOSE = "write close(), or use the client in a with statement; with asyncio: await close(), or async with"
PRODUCER_METHODS = {
    "init_transactions": "leave it out: the first transaction of the producer does it",
    "list_topics": "write Admin(bootstrap).list_topics()",
    "poll": "the client works in the background; wait with flush(), or with result() of the future that send returns",
    "produce": "write producer.send(topic, value=..., key=...); it returns a future, and"
    " future.add_done_callback(...) is told of the ack",
    "send_offsets_to_transaction": "write `with producer.transaction() as t: ...; t.send_offsets(consumer)`",
    "send_and_wait": "write future = await producer.send(...), then await future",
    "stop": CLOSE,
}
CONSUMER_METHODS = {
    "consume": "write consumer.poll(timeout_ms=1000, max_records=100)",
    "currentLag": "write consumer.lag(partition)",
    "get_watermark_offsets": "write beginning_offsets([partition]) and end_offsets([partition])",
    "getmany": "write await consumer.poll(timeout_ms=1000)",
    "getone": "write record = await anext(consumer)",
    "list_topics": "write Admin(bootstrap).list_topics()",
    "partitions_for_topic": "write consumer.partitions_for('orders')",
    "stop": CLOSE,
    "store_offsets": "write consumer.commit({partition: record.position}) once the record is done",
    "topics": "write Admin(bootstrap).list_topics()",
}
ADMIN_METHODS = {
    "alter_consumer_group_offsets": "write admin.alter_group_offsets('shop', {TopicPartition('orders', 0): 100})",
    "delete_consumer_groups": "write admin.delete_groups(['shop'])",
    "describe_configs": "write admin.describe_topic_config('orders')",
    "describe_consumer_groups": "write admin.describe_groups(['shop'])",
    "list_consumer_group_offsets": "write admin.group_offsets('shop')",
    "list_consumer_groups": "write admin.list_groups()",
}
CALLBACK = "write future.add_done_callback(told); told(future) finds exception() or result() there"
FUTURE_METHODS = {
    "add_both": CALLBACK,
    "add_callback": CALLBACK,
    "add_errback": CALLBACK,
    "failed": "write future.exception() is not None",
    "get": "write future.result(timeout=10)",
    "is_done": "write future.done()",
    "succeeded": "write future.exception() is None",
}
RECORD_FIELDS = {
    "error": "errors are raised by poll",
    "timestamp": "write record.timestamp_ms",
}
"""Methods and fields of other clients, and what to write here."""

POLL_ARGUMENTS = {
    "num_messages": "write max_records=100",
    "timeout": "write timeout_ms=1000, a whole number of milliseconds",
}

C = TypeVar("C")


def foreign_option(client: str, key: str, value: Any, known: Collection[str]) -> str:
    """The line to write instead of an option that is not among the `known` ones, after '; '; '' where nothing is
    meant."""
    name = key.replace(".", "_")
    if name in ADDRESSES:
        return f"; the addresses come first: {client}({value!r})"
    if RENAMED.get(name, name) in known:
        return f"; write {RENAMED.get(name, name)}={shown_value(RENAMED.get(name, name), value)}"
    return f"; {ABSENT[name]}" if name in ABSENT else ""


def call_for(client: str, settings: Mapping[Any, Any]) -> str:
    """The call that means the same as a dict of dotted keys; what has no counterpart follows it, with the reason."""
    address: list[str] = []
    options: list[str] = []
    reasons: list[str] = []
    for key, value in settings.items():
        name = str(key).replace(".", "_")
        if name in ADDRESSES:
            address = [repr(value)]
        elif name in ABSENT:
            reasons.append(f"; {key}: {ABSENT[name]}")
        else:
            options.append(f"{RENAMED.get(name, name)}={shown_value(RENAMED.get(name, name), value)}")
    return f"{client}({', '.join([*(address or [repr('host:port')]), *options])}){''.join(reasons)}"


def with_method_hints(methods: Mapping[str, str]) -> Callable[[type[C]], type[C]]:
    """A class decorator: the AttributeError for what only another client has says what to write, and so does `help()`.

    Type checkers and editors see neither. Properties, because a class with `__getattr__` reads its own
    attributes at half the speed, and `send` counts.
    """

    def hinted(client: type[C]) -> type[C]:
        for name, hint in methods.items():
            setattr(client, name, _not_here(client.__name__, name, hint))
        return client

    return hinted


def _not_here(client: str, name: str, hint: str) -> property:
    def refuse(instance: object) -> NoReturn:
        raise AttributeError(f"{client!r} object has no attribute {name!r}; {hint}", name=name, obj=instance)

    return property(refuse, doc=f"Not here: {hint}.")


def checked_timeout_ms(timeout_ms: Any) -> int:
    """The time limit of a poll; elsewhere it is in seconds, which is refused and not taken for milliseconds."""
    if isinstance(timeout_ms, bool) or not isinstance(timeout_ms, int):
        given = f"{timeout_ms!r} seconds" if isinstance(timeout_ms, float) else "a second"
        right = round(timeout_ms * 1000) if isinstance(timeout_ms, float) else 1000
        raise TypeError(
            f"poll({timeout_ms!r}): the time limit is a whole number of milliseconds; for {given} write"
            f" poll(timeout_ms={right})"
        )
    if timeout_ms < 0:
        raise ValueError(f"poll({timeout_ms}): the time limit must not be negative; poll again to wait for longer")
    return timeout_ms


def refuse_arguments(method: str, others: Mapping[str, Any]) -> None:
    """TypeError for an argument that a poll does not have, with what to write."""
    for name, value in others.items():
        hint = POLL_ARGUMENTS.get(name, "it takes timeout_ms and max_records")
        raise TypeError(f"{method}({name}={value!r}): there is no argument {name!r}; {hint}")
