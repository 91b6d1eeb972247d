"""Makes the quotas of clients, which stand on the metadata alone."""

from __future__ import annotations

from broker.config.node_config import NodeConfig
from broker.quorum.metadata_loader import MetadataLoader
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.request_quotas import RequestQuotas
from broker.quotas.sampled_rate import QuotaWindows


def make_quotas(config: NodeConfig, loader: MetadataLoader) -> RequestQuotas:
    """Makes the quotas, which are notified of the metadata from now on."""
    windows = QuotaWindows(config.quota_window_num, config.quota_window_size_seconds * 1_000)
    size_ms = config.controller_quota_window_size_seconds * 1_000
    quotas = RequestQuotas(ClientQuotas(windows, QuotaWindows(config.controller_quota_window_num, size_ms)))
    loader.subscribe(quotas.published)
    return quotas
