"""gRPC's log: a caller that left is no error of the node; a defect of a handler still is."""

from __future__ import annotations

import logging

import pytest
from grpc._cython import cygrpc

from broker.grpc.callers_that_left import GRPC_LOGGER, quieten

TEXT = "%s raised in core by servicer method [%s]"


def logged(error: Exception) -> None:
    try:
        raise error
    except Exception:
        logging.getLogger(GRPC_LOGGER).exception(TEXT, type(error).__name__, "/penstock.v1.Broker/Metadata")


def test_a_caller_that_left_is_a_line_at_debug_level_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    quieten()
    logged(cygrpc.ExecuteBatchError("execute_batch", ()))
    assert not caplog.records
    with caplog.at_level(logging.DEBUG, GRPC_LOGGER):
        logged(cygrpc.ExecuteBatchError("execute_batch", ()))
    (record,) = caplog.records
    assert record.levelname == "DEBUG" and record.exc_info is None
    assert record.getMessage().endswith("/penstock.v1.Broker/Metadata]: its caller has left")


def test_a_defect_of_a_handler_keeps_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    quieten()
    logged(ValueError("a defect"))
    (record,) = caplog.records
    assert record.levelname == "ERROR" and record.exc_info is not None
