"""Decides which brokers are cordoned, so that no new replica is placed there (KIP-1066).

`cordoned.log.dirs` names the log dirs of a broker by their paths, or all of them by `*`. The controller knows log dirs
by their ids, and no file of a node. So two things say whether a broker is cordoned:

    its dynamic configuration, or that of all brokers     `*`: it is; an empty list: it is not
    the ids that the broker told in its last heartbeat    it is if they are all of its log dirs that are online

What a broker tells is kept in the metadata, so it holds after a failover and while the broker is away. It is a
ConfigRecord of a resource that no client can configure: a node of the release before reads it, and does nothing. A
broker of that release tells nothing; `*` holds for it all the same.

Pure. Not here: which of its log dirs a broker chooses (storage/log_dirs/log_creation.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from metadata.records import ALL_BROKERS, BROKER_RESOURCE, ConfigRecord
from metadata.registrations import BrokerRegistration
from penstock.messages.configs import ConfigResource

CORDONED_LOG_DIRS: Final = "cordoned.log.dirs"
EVERY_DIR: Final = "*"
CORDON_RESOURCE: Final = "broker-cordon"
"""The resource type of what a broker told of its cordoned log dirs, by the broker's id."""
IDS_KEY: Final = "log.dir.ids"
"""The one key of such a resource: the ids, with commas between them."""

Configs = Mapping[ConfigResource, Mapping[str, str]]

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_OF_ALL: Final = ConfigResource(BROKER_RESOURCE, ALL_BROKERS)


def is_cordoned(broker: BrokerRegistration, configs: Configs) -> bool:
    """True if the broker gets no new replica."""
    own = configs.get(ConfigResource(BROKER_RESOURCE, str(broker.broker_id)), _NONE)
    text = own.get(CORDONED_LOG_DIRS, configs.get(_OF_ALL, _NONE).get(CORDONED_LOG_DIRS))
    if text is not None:
        items = {item.strip() for item in text.split(",")}
        if EVERY_DIR in items:
            return True
        if items == {""}:
            return False
    online = set(broker.log_dirs).difference(broker.offline_log_dirs)
    return bool(online) and online <= _reported(broker.broker_id, configs)


def cordoned_brokers(brokers: Iterable[BrokerRegistration], configs: Configs) -> frozenset[int]:
    return frozenset(broker.broker_id for broker in brokers if is_cordoned(broker, configs))


def cordon_record(broker: BrokerRegistration, ids: Iterable[str], configs: Configs) -> tuple[ConfigRecord, ...]:
    """The record that keeps what the broker tells; none if it is known. Ids that it is not registered with are left
    out, so what is kept is bounded."""
    reported = set(broker.log_dirs).intersection(ids)
    if reported == _reported(broker.broker_id, configs):
        return ()
    text = ",".join(sorted(reported)) or None
    return (ConfigRecord(CORDON_RESOURCE, str(broker.broker_id), IDS_KEY, text),)


def forgotten_cordon_record(broker_id: int, configs: Configs) -> tuple[ConfigRecord, ...]:
    """The record that forgets what the broker told; none if it told nothing."""
    return (ConfigRecord(CORDON_RESOURCE, str(broker_id), IDS_KEY, None),) if _reported(broker_id, configs) else ()


def _reported(broker_id: int, configs: Configs) -> set[str]:
    text = configs.get(ConfigResource(CORDON_RESOURCE, str(broker_id)), _NONE).get(IDS_KEY, "")
    return set(filter(None, text.split(",")))
