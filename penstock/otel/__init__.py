"""OpenTelemetry for programs that send and read records: traces and metrics. `pip install 'penstock[otel]'`.

    from penstock.otel import AsyncTracedConsumer, AsyncTracedProducer, ClientMeters, TracedConsumer, TracedProducer

docs/client-metrics.md shows how. A client that is not wrapped knows nothing of this, and pays nothing for it.
"""

from penstock.otel.client_meters import ClientMeters as ClientMeters
from penstock.otel.traced_clients import AsyncTracedConsumer as AsyncTracedConsumer
from penstock.otel.traced_clients import AsyncTracedProducer as AsyncTracedProducer
from penstock.otel.traced_clients import TracedConsumer as TracedConsumer
from penstock.otel.traced_clients import TracedProducer as TracedProducer
