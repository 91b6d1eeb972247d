"""The values that the controller uses of a node's keys: the metadata's for all brokers, else those of its own file.

They are read from the controller's state, so a decision sees what the one before it has changed. No single broker can
have another value of them (`Update.CLUSTER`), so brokers that know the metadata agree with the controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from metadata.controller.config import ControllerConfig
from metadata.controller.state import ControllerState
from metadata.records import ALL_BROKERS
from penstock.config_keys import ConfigValue

ONE_PER_RACK = "replica.placement.one.per.rack"


class BalanceSettings(NamedTuple):
    """When leaderships go back to the preferred leaders."""

    is_enabled: bool
    percentage: int
    interval_ms: int


class ReplicaBalanceSettings(NamedTuple):
    """The schedule by which replicas move."""

    is_enabled: bool
    interval_ms: int


class ClusterDefaults:
    """The defaults of one controller: its configuration, overridden by the metadata's values for all brokers."""

    def __init__(self, config: ControllerConfig, state: ControllerState) -> None:
        self._config, self._state = config, state
        self._texts = state.broker_config(ALL_BROKERS)
        """The mapping from which the two below were made; a change of the state makes another mapping."""
        self._values = self._typed(self._texts)
        self._topic_defaults = self.topic_defaults_with(self._texts)

    @property
    def topic_defaults(self) -> Mapping[str, ConfigValue]:
        """Typed, by topic key or broker key, as `effective_value` takes them."""
        self._renew()
        return self._topic_defaults

    def topic_defaults_with(self, texts: Mapping[str, str]) -> Mapping[str, ConfigValue]:
        """The `topic_defaults` that would hold if the metadata had these texts for all brokers."""
        return {**self._config.topic_defaults, **self._typed(texts)}

    @property
    def balance(self) -> BalanceSettings:
        self._renew()
        config, values = self._config, self._values
        seconds = values.get("leader.imbalance.check.interval.seconds")
        percentage = values.get("leader.imbalance.per.broker.percentage")
        return BalanceSettings(
            bool(values.get("auto.leader.rebalance.enable", config.leader_rebalance_enable)),
            percentage if isinstance(percentage, int) else config.leader_imbalance_percentage,
            1_000 * seconds if isinstance(seconds, int) else config.leader_imbalance_check_interval_ms,
        )

    @property
    def replica_balance(self) -> ReplicaBalanceSettings:
        self._renew()
        config, values = self._config, self._values
        seconds = values.get("auto.replica.balance.check.interval.seconds")
        return ReplicaBalanceSettings(
            bool(values.get("auto.replica.balance.enable", config.replica_balance_enable)),
            1_000 * seconds if isinstance(seconds, int) else config.replica_balance_check_interval_ms,
        )

    @property
    def partitions_percent(self) -> int:
        """The share of one principal of the partitions that the topics of others leave."""
        self._renew()
        percent = self._values.get("max.partitions.per.principal.percent")
        return percent if isinstance(percent, int) else self._config.max_partitions_per_principal_percent

    @property
    def one_replica_per_rack(self) -> bool:
        """True if no partition may get two replicas in one rack."""
        self._renew()
        return bool(self._values.get(ONE_PER_RACK, self._config.one_replica_per_rack))

    def _renew(self) -> None:
        texts = self._state.broker_config(ALL_BROKERS)
        if texts is not self._texts:
            self._texts, self._values = texts, self._typed(texts)
            self._topic_defaults = self.topic_defaults_with(texts)

    def _typed(self, texts: Mapping[str, str]) -> dict[str, ConfigValue]:
        return self._config.broker_configs.in_force(texts, ALL_BROKERS)

    def __repr__(self) -> str:
        return f"ClusterDefaults({dict(self._texts)})"
