"""Mistakes with the configuration of brokers that changes while they run (KIP-226)."""

from __future__ import annotations

from broker.config.dynamic_config import DynamicBrokerConfig
from metadata.controller.configuration import broker_configs
from metadata.delta import MetadataDelta
from tests.simulation.cluster.mutants.edit import Edit, Mutant
from tests.simulation.cluster.mutants.stories import directed
from tests.simulation.cluster.plan import Aim, Fault, Kind, OperatorPlan, Task

_TUNER = (OperatorPlan(Task.TUNE, "topic-0", 0.05),)
_CALM = directed(operators=_TUNER, seconds=4.0)

CONFIGS = (
    Mutant(
        "the value for all brokers wins over a broker's own",
        "KIP-226",
        (
            Edit(
                DynamicBrokerConfig._renew,
                "{**self._for_all, **self._own}",
                "{**self._own, **self._for_all}",
            ),
        ),
        stories=_CALM,
    ),
    Mutant(
        "a change of brokers with a key that needs a restart is half applied",
        "KIP-339",
        (
            Edit(
                broker_configs.broker_records,
                "definition_of(key).parse(after[key])",
                "after.pop(key) if key == 'num.io.threads' else definition_of(key).parse(after[key])",
            ),
        ),
        stories=_CALM,
    ),
    Mutant(
        "an ELR survives a lower min.insync.replicas for all brokers",
        "KIP-966",
        (Edit(broker_configs._with_partitions, "*emptied_elrs(state.partitions_with_elr(), min_isr), ", ""),),
        stories=directed(Fault(0.5, Kind.KILL, 1, 0, 4.0, 0.5, Aim.FOLLOWER), min_isr=3, operators=_TUNER),
    ),
    Mutant(
        "a node that takes a snapshot of the metadata keeps its configuration",
        "seam: publisher",
        (Edit(MetadataDelta.between, "_different(image.configs, newer.configs)", "set()"),),
        stories=directed(
            Fault(0.5, Kind.KILL, 1, 0, 4.0, 0.5),
            operators=_TUNER,
            metadata_log_max_record_bytes_between_snapshots=500,
            metadata_max_retention_bytes=1,
        ),
    ),
)
