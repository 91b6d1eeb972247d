"""Guesses of passwords at both doors: refused, no faster than the node allows, and as late for a user that there is as
for one that there is not."""

from __future__ import annotations

import asyncio
import math
import secrets
import ssl
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import grpc.aio

from broker.authentication.attempts import OF_HOST_MAX
from broker.kafka.schemas.security import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from penstock.testing.ports import HOST
from tests.attack import kafka_door
from tests.attack.grpc_door import Attacker, channel_to, log_in
from tests.attack.stage import KNOWN_USER, MALLORY, MALLORYS, UNKNOWN_USER, Stage

SOURCE: Final = "127.0.0.2"
GUESSING: Final = "127.0.0.5"
"""Nobody has logged in from there, which would give it more attempts."""
"""The guessers' address: what one address may do is bounded, and the honest client has another one."""
GUESSERS: Final = 32
DELAY_S: Final = 0.1
"""connection.failed.authentication.delay.ms"""
NOISE_MS: Final = 5.0
"""Between a known and an unknown user. The delay is on top of what a refusal takes."""
NOISE_ERRORS: Final = 3.0
"""Also so many standard errors of the difference: on a busy machine refusals spread by more than NOISE_MS."""
RATE_SLACK: Final = 1.2


def times(stage: Stage, count: int) -> tuple[list[str], list[str]]:
    """How long refusals take, at each door: a known and an unknown user by turns."""
    lines, holes = [], list[str]()
    for door, guess in (("KAFKA", _kafka_guess(stage)), ("BROKER", _grpc_guess(stage))):
        took: dict[str, list[float]] = {KNOWN_USER: [], UNKNOWN_USER: []}
        for _ in range(count):
            for user, found in took.items():
                found.append(guess(user))
        known, unknown = (statistics.median(found) * 1_000 for found in took.values())
        lines.append(
            f"{door}: a refusal takes {known:.1f} ms for a user that there is, {unknown:.1f} ms for another "
            f"(medians of {count})"
        )
        if differ(*took.values()):
            holes.append(f"{door}: refusals tell who is a user: {known:.1f} and {unknown:.1f} ms")
        if min(known, unknown) < DELAY_S * 1_000:
            holes.append(f"{door}: a refusal takes {min(known, unknown):.1f} ms only")
    return lines, holes


def differ(known: Sequence[float], unknown: Sequence[float]) -> bool:
    """True if the times (s) of turns tell the two users apart, beyond what the turns differ among themselves."""
    each_ms = [(other - one) * 1_000 for one, other in zip(known, unknown, strict=True)]
    error_ms = statistics.stdev(each_ms) / math.sqrt(len(each_ms))
    return abs(statistics.median(each_ms)) > max(NOISE_MS, NOISE_ERRORS * error_ms)


def _kafka_guess(stage: Stage) -> Callable[[str], float]:
    tls = ssl.create_default_context(cadata=stage.ca.decode())

    def guess(user: str) -> float:
        with kafka_door.from_elsewhere((HOST, stage.ports.kafka), SOURCE, tls) as connection:
            began = time.monotonic()
            try:
                kafka_door.log_in(connection, user, secrets.token_hex(8))
            except ConnectionRefusedError:
                return time.monotonic() - began
        raise AssertionError("a guess was right")

    return guess


def _grpc_guess(stage: Stage) -> Callable[[str], float]:
    def guess(user: str) -> float:
        async def run() -> float:
            channel = channel_to(stage, "BROKER", Attacker("", ()))
            try:
                await channel.channel_ready()
                began = time.monotonic()
                try:
                    await log_in(channel, user, secrets.token_hex(8))
                except grpc.aio.AioRpcError:
                    return time.monotonic() - began
            finally:
                await channel.close()
            raise AssertionError("a guess was right")

        return asyncio.run(run())

    return guess


def rate(stage: Stage, seconds: float) -> tuple[str, list[str]]:
    """Many guessers of one address at one node."""
    tls, ended = ssl.create_default_context(cadata=stage.ca.decode()), time.monotonic() + seconds
    answers: list[str] = []
    began = time.monotonic()

    def work() -> None:
        while time.monotonic() < ended:
            try:
                with kafka_door.from_elsewhere((HOST, stage.ports.kafka), GUESSING, tls) as connection:
                    kafka_door.log_in(connection, KNOWN_USER, secrets.token_hex(8))
                answers.append("LOGGED IN")
            except ConnectionRefusedError:
                answers.append("refused")
            except OSError:
                answers.append("unheard")

    threads = [threading.Thread(target=work) for _ in range(GUESSERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - began
    heard, most = answers.count("refused") / took, OF_HOST_MAX / DELAY_S
    line = (
        f"guesses: {len(answers)} by {GUESSERS} at a time in {took:.1f} s, {heard:.0f} a second heard (at most "
        f"{most:.0f})"
    )
    holes = ["a guess was right"] if "LOGGED IN" in answers else []
    if heard > most * RATE_SLACK:
        holes.append(f"{heard:.0f} guesses a second were heard; at most {most:.0f} should be")
    if not heard:
        holes.append("no guess was heard: nothing was tried")
    return line, holes


def replayed_proof(stage: Stage) -> list[str]:
    """The messages of a dialogue that succeeded, sent once more, prove nothing."""
    tls = ssl.create_default_context(cadata=stage.ca.decode())
    place = (HOST, stage.ports.kafka)
    with kafka_door.from_elsewhere(place, SOURCE, tls) as connection:
        sent = kafka_door.log_in(connection, MALLORY, MALLORYS)
    with kafka_door.from_elsewhere(place, SOURCE, tls) as connection:
        connection.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1, SaslHandshakeResponse)
        answers: list[Any] = [
            connection.ask(SaslAuthenticateRequest(auth_bytes=message), 2, SaslAuthenticateResponse) for message in sent
        ]
    return [] if answers[-1].error_code == 58 else [f"a replayed proof was answered with {answers[-1]}"]
