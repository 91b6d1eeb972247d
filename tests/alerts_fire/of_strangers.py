"""Faults of who may not: passwords that are wrong, and rights that are not there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from broker.kafka.schemas.security import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from penstock.client.admin.admin_types import AclBinding, Operation, Permission, ResourceType
from penstock.errors import AuthorizationFailedError
from tests.alerts_fire.stage import FaultError, Stage, again_and_again
from tests.support.kafka_socket import KafkaSocket

PAUSE_S = 0.05
PROTOCOLS = "BROKER:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,KAFKA:SASL_PLAINTEXT"


@contextmanager
def guessed_passwords(stage: Stage) -> Iterator[None]:
    """Somebody logs in wrongly, by a new connection each time."""

    def guess() -> None:
        with suppress(OSError), KafkaSocket(address) as connection:
            connection.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1, SaslHandshakeResponse)
            wrong = SaslAuthenticateRequest(auth_bytes=b"a guess")
            if not connection.ask(wrong, 2, SaslAuthenticateResponse).error_code:
                raise FaultError("a guess was right")

    address = stage.cluster.kafka_bootstrap.split(",")[0]
    stage.begins()
    with again_and_again(guess, PAUSE_S):
        yield


@contextmanager
def program_without_its_acl(stage: Stage) -> Iterator[None]:
    """It asks for a topic that it may not see, again and again."""
    topic = stage.topic("secret")
    stage.admin.create_acls([AclBinding(ResourceType.TOPIC, topic, "User:*", Operation.DESCRIBE, Permission.DENY)])

    def ask() -> None:
        with suppress(AuthorizationFailedError):
            stage.admin.describe_topic(topic)
            raise FaultError(f"{topic} was told")

    stage.begins()
    with again_and_again(ask, PAUSE_S / 5):
        yield
