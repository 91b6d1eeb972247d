"""The metrics of a node, whatever its roles: its load, and its files of certificates and public keys.

Reads `statistics()` only. The metrics of each part of a node stand elsewhere in this folder, and the parts
(`broker/node/`) say which are theirs.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.authentication.tokens.ports import Tokens
from broker.load.node_load import NodeLoad
from broker.metrics.field_readings import record_readings
from broker.metrics.metrics import Reading
from broker.tls.material import Certificates


def load_readings(of_node: NodeLoad, *, is_broker: bool) -> Iterator[Reading]:
    """load/node_load.py defines idle."""
    load = of_node.statistics()
    if is_broker:
        yield Reading(
            "penstock_network_processor_avg_idle_percent",
            "Share of the last minute (0 to 1) that was left for decoding requests and encoding answers.",
            load.processor_idle_ratio,
        )
        yield Reading(
            "penstock_request_handler_avg_idle_percent",
            "Share of the last minute (0 to 1) that was left for handling requests.",
            load.handler_idle_ratio,
        )
    yield from record_readings(load)
    for kind, seconds in load.cpu_seconds.items():
        help_text = "Processor time of the node by what it was for; together the process's own."
        yield Reading("penstock_cpu_seconds", help_text, seconds, True, (("kind", kind.value),))


def certificate_readings(certificates: Certificates, tokens: Tokens) -> Iterator[Reading]:
    found = certificates.statistics()
    help_text = "When the first certificate of a keystore ends, or the last CA of a truststore: seconds since 1970."
    for one in found:
        files = {"keystore": one.keystore_not_after_ms, "truststore": one.truststore_not_after_ms}
        for file, ends_ms in files.items():
            if ends_ms is not None:
                of_file = (("listener", one.listener), ("file", file))
                yield Reading("penstock_certificate_not_after_seconds", help_text, ends_ms / 1000, labels=of_file)
    help_text = "1 while a changed file of certificates does not work, and the old one stays in force."
    for one in found:
        labels = (("listener", one.listener),)
        yield Reading("penstock_certificates_refused", help_text, float(one.is_refused), labels=labels)
    help_text = "Changed files of certificates that were taken while the node ran, by each listener that has them."
    yield Reading("penstock_certificate_reloads", help_text, certificates.reloads, True)

    help_text = "Public keys in force that verify tokens."
    for keys in tokens.statistics():
        yield Reading("penstock_token_keys", help_text, keys.keys, labels=(("listener", keys.listener),))
    help_text = "1 while the newest public keys cannot be had or do not work, and the old ones stay in force."
    for keys in tokens.statistics():
        labels = (("listener", keys.listener),)
        yield Reading("penstock_token_keys_refused", help_text, float(keys.is_refused), labels=labels)
