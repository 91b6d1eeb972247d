"""Asks for a producer id: any broker gives one, and no other producer of the cluster ever gets the same (KIP-98).

A broker that is silent is left for the next one: an id whose answer comes too late is nobody's, which costs nothing.
"""

from __future__ import annotations

from penstock.client.cluster.cluster import ClusterClient
from penstock.client.wire.messages import ProducerIdAndEpoch


async def init_producer_id(cluster: ClusterClient, deadline_ms: int) -> ProducerIdAndEpoch:
    """A new producer id in its first epoch.

    Retriable errors are tried again until `deadline_ms` (of the client's clock). Then the last one is raised, or
    TimedOutError if no broker answered; BootstrapError if none ever did, UnsupportedVersionError if the broker is older
    than producer ids.
    """
    await cluster.wait_ready()
    return await cluster.ask_any(lambda connection, ms: connection.init_producer_id(ms), deadline_ms, read_only=True)
