"""Logs a simulated client of Kafka's protocol in: SaslHandshake, then the messages of SCRAM (KIP-43, KIP-152)."""

from __future__ import annotations

from broker.kafka.schemas.security import SaslAuthenticateRequest, SaslHandshakeRequest
from penstock.client.wire.login import Login
from tests.simulation.cluster.kafka.connection import Broken, Connection

MECHANISM = "SCRAM-SHA-256"
REFUSED = (33, 34, 58)
"""Codes that a user with the right password never gets: mechanism, state, password."""


async def log_in(connection: Connection, username: str, password: str) -> str:
    """A new connection is the user's from then on. What was wrong; Broken if it was another trouble."""
    half = Login(username, password, MECHANISM).dialogue()
    answer = await connection.ask(SaslHandshakeRequest(mechanism=MECHANISM), 1)
    message = half.respond(None)
    while message is not None and not answer.error_code:
        answer = await connection.ask(SaslAuthenticateRequest(auth_bytes=message), 2)
        message = None if answer.error_code else half.respond(bytes(answer.auth_bytes))
    if not answer.error_code and half.is_done:
        return ""
    connection.close("the log-in was refused")
    if answer.error_code in REFUSED:
        return f"{username} cannot log in: {answer}"
    raise Broken(f"no log-in: {answer}")
