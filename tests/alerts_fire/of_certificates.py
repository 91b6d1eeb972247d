"""Faults of certificates and public keys: files that are replaced by what they should not be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.alerts_fire.stage import CA, Stage


@contextmanager
def ending_certificate(stage: Stage) -> Iterator[None]:
    """It was renewed for hours instead of months."""
    stage.begins()
    with _replaced(stage.keystore, CA.node(0, days=0.5)):
        yield


@contextmanager
def half_a_certificate(stage: Stage) -> Iterator[None]:
    """A copy was cut off."""
    stage.begins()
    with _replaced(stage.keystore, stage.keystore.read_bytes()[:400]):
        yield


@contextmanager
def page_instead_of_keys(stage: Stage) -> Iterator[None]:
    """A job fetches the issuer's keys, and has got the page of a proxy."""
    stage.begins()
    with _replaced(stage.keys, b"<html>503 Service Unavailable</html>"):
        yield


@contextmanager
def _replaced(path: Path, data: bytes) -> Iterator[None]:
    before = path.read_bytes()
    path.write_bytes(data)
    try:
        yield
    finally:
        path.write_bytes(before)
