"""A test that keeps gRPC's records keeps none of gRPC's objects, whose memory may be free already."""

from __future__ import annotations

import asyncio
import gc
import logging

import grpc.aio
import pytest

from tests.support.grpc_log import GRPC_LOGGER


def test_a_record_of_a_server_that_is_deallocated_keeps_its_text_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        grpc.aio.server()
        gc.collect()

    with caplog.at_level(logging.DEBUG, GRPC_LOGGER):
        asyncio.run(main())
        gc.collect()
    logged = [record for record in caplog.records if "__dealloc__ called on running server" in record.getMessage()]
    assert logged and not any(record.args for record in logged)
