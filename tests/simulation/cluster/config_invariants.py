"""I45: the configuration in force on a node is what its own image and its file say, and nothing else.

Reckoned here anew, key by key, from the texts in the image: this broker's own, else that for all, else the file's.
"""

from __future__ import annotations

from broker.config.dynamic_keys import DYNAMIC
from broker.config.keys.config_table import KEYS
from broker.config.node_config import NodeConfig
from broker.node.node import Node
from metadata.image import MetadataImage
from penstock.config_keys import Update
from penstock.messages.configs import ConfigResource
from tests.simulation.cluster.durable_log import Violated

_FOR_ALL = ConfigResource("broker", "")


class ConfigInvariants:
    """See the module. One per process of a node."""

    def __init__(self) -> None:
        self._checked: tuple[object, NodeConfig] | None = None

    def after_step(self, name: str, node: Node, image: MetadataImage) -> None:
        in_force = node.dynamic.current
        if self._checked is not None and self._checked[0] is image.configs and self._checked[1] is in_force:
            return
        own = image.configs.get(ConfigResource("broker", str(node.config.node_id)), {})
        for_all = image.configs.get(_FOR_ALL, {})
        for key in KEYS.values():
            found = getattr(in_force, key.attribute)
            text = own.get(key.name, for_all.get(key.name))
            may_change = key.update is not Update.RESTART
            wanted = DYNAMIC[key.name].parse(text) if may_change and text else getattr(node.config, key.attribute)
            if found != wanted:
                raise Violated(
                    f"I45: {name} goes by {key.name} = {found} at metadata offset {image.offset}; its own is "
                    f"{own.get(key.name)}, that for all {for_all.get(key.name)}"
                )
        if not {*own, *for_all} <= DYNAMIC.keys():
            raise Violated(
                f"I45: the metadata has keys that cannot change: {sorted({*own, *for_all} - DYNAMIC.keys())}"
            )
        self._checked = image.configs, in_force
