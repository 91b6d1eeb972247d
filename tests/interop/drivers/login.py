"""How a driver's client logs in: by the variables that the matrix gives it with --secure, or not at all.

INTEROP_TLS_CA, INTEROP_USERNAME, INTEROP_PASSWORD      the cluster's CA, and a user who may do everything
INTEROP_PROPERTIES                                      the same as a file for Kafka's own tools
"""

from __future__ import annotations

import os
import ssl
from typing import Any

MECHANISM = "SCRAM-SHA-512"
CA = os.environ.get("INTEROP_TLS_CA", "")
USERNAME, PASSWORD = os.environ.get("INTEROP_USERNAME", ""), os.environ.get("INTEROP_PASSWORD", "")
PROPERTIES = os.environ.get("INTEROP_PROPERTIES", "")


def librdkafka() -> dict[str, Any]:
    if not CA:
        return {}
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": CA,
        "sasl.mechanism": MECHANISM,
        "sasl.username": USERNAME,
        "sasl.password": PASSWORD,
    }


def kafka_python() -> dict[str, Any]:
    return {**_python(), "ssl_cafile": CA} if CA else {}


def aiokafka() -> dict[str, Any]:
    return {**_python(), "ssl_context": ssl.create_default_context(cafile=CA)} if CA else {}


def _python() -> dict[str, Any]:
    return {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": MECHANISM,
        "sasl_plain_username": USERNAME,
        "sasl_plain_password": PASSWORD,
    }
