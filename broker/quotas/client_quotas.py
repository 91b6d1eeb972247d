"""Holds clients to their quotas: what a client has taken, and how long it waits after that (KIP-13, KIP-124, KIP-219).

Without I/O; a connection loop reads no further while its client waits. Every broker counts for itself, as in Kafka: a
client of three brokers has its quota at each. Not here: which quota counts (quota_limits.py).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

from broker.quotas.quota_limits import Limit, QuotaLimits, QuotaOwner, address_limits_of, limits_of
from broker.quotas.sampled_rate import QuotaWindows, SampledRate
from broker.quotas.token_bucket import TokenBucket
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from metadata.quotas import Quotas
from penstock.addresses import network_of
from penstock.lazy_dataclass import dataclass
from penstock.messages.security.quotas import (
    ADDRESS_KEYS,
    CONNECTION_CREATION_RATE,
    CONTROLLER_MUTATION_RATE,
    DEFAULT_NAME,
    QUOTA_KEYS,
    REQUEST_PERCENTAGE,
)
from penstock.metric_fields import counter, in_seconds, measured

T = TypeVar("T")
ALL_KEYS: Final = (*QUOTA_KEYS, *ADDRESS_KEYS)
DEFAULT_WINDOWS: Final = QuotaWindows()
OWNERS_MAX: Final = 10_000
"""The rates that are kept of owners of one kind, 1 KiB each: clients choose their ids. The owner that was quiet for
longest goes, and begins anew when it comes back."""


@measured
class QuotaStatistics:
    """The waits for one quota, since the start of the node."""

    throttled: int = counter(
        "penstock_quota_throttled_requests",
        "Requests after which a client was made to wait, and new connections that waited, by quota.",
        default=0,
    )
    throttle_ms: int = counter(
        "penstock_quota_throttle_seconds", "How long clients were made to wait, by quota.", in_seconds, default=0
    )


@dataclass(slots=True)
class _Wait:
    """The end of the time that an owner was told to wait, and the quota for which."""

    until_ms: int = 0
    per_second: float = 0.0


class ClientQuotas:
    """The quotas of one broker's clients. Used on the event loop."""

    def __init__(self, windows: QuotaWindows, windows_of_changes: QuotaWindows = DEFAULT_WINDOWS) -> None:
        self._windows = windows
        self._of: Quotas = {}
        self._limits: Mapping[str, QuotaLimits] = {}
        self._addresses: Mapping[str, float] = {}
        self.is_active = False
        """False: nobody has a quota, and nothing need be counted."""
        self._rates = KeptByOwner(lambda: SampledRate(windows))
        self._buckets = KeptByOwner(lambda: TokenBucket(windows_of_changes))
        self._of_addresses = KeptByOwner(lambda: TokenBucket(windows_of_changes))
        self._waits = KeptByOwner(_Wait)
        self._throttled = dict.fromkeys(ALL_KEYS, 0)
        self._throttle_ms = dict.fromkeys(ALL_KEYS, 0)

    def published(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """A publisher of the metadata calls this for each new image."""
        if image.quotas is not self._of:
            self._of = image.quotas
            self._limits = limits_of(image.quotas)
            self._addresses = address_limits_of(image.quotas)
            self.is_active = bool(self._limits)
            if not self.is_active:
                self._waits.clear()
            if not self.is_active and not self._addresses:
                self._rates.clear()
                self._buckets.clear()
                self._of_addresses.clear()

    def take(self, key: str, user: str, client_id: str, amount: float, now_ms: int) -> int:
        """Counts `amount` that a client has taken. Returns how long it waits (ms): 0 within its quota, or without
        one."""
        limit = self._limit(key, user, client_id)
        if limit is None:
            return 0
        if key == CONTROLLER_MUTATION_RATE:
            throttle_ms = self._buckets.of(key, limit.owner).take(amount, limit.per_second, now_ms)
        else:
            rate = self._rates.of(key, limit.owner)
            rate.record(amount, now_ms)
            throttle_ms = rate.throttle_ms(limit.per_second, now_ms)
        if key == REQUEST_PERCENTAGE:  # as in Kafka: a heavy request does not shut its client out for minutes
            throttle_ms = min(throttle_ms, self._windows.size_ms)
        if throttle_ms:
            wait = self._waits.of(key, limit.owner)
            wait.until_ms = max(0 if _is_lifted(wait, limit) else wait.until_ms, now_ms + throttle_ms)
            wait.per_second = limit.per_second
        return self._counted(key, throttle_ms)

    def owed(self, key: str, user: str, client_id: str, now_ms: int) -> int:
        """The rest of the time that the client was told to wait (ms). A client that has waited owes nothing, even if
        its rate is above the quota still: the next request counts again. Nor does a client whose own quota was raised
        since: the old one may have been a mistake. Other changes of quotas change nothing about it."""
        limit = self._limit(key, user, client_id)
        wait = None if limit is None else self._waits.known(key, limit.owner)
        return 0 if wait is None or limit is None or _is_lifted(wait, limit) else max(0, wait.until_ms - now_ms)

    def _limit(self, key: str, user: str, client_id: str) -> Limit | None:
        limits = self._limits.get(key)
        return None if limits is None else limits.find(user, client_id)

    @property
    def has_addresses(self) -> bool:
        """See AddressQuotas."""
        return bool(self._addresses)

    def connected(self, host: str, now_ms: int) -> int:
        """See AddressQuotas."""
        limit = self._addresses.get(host) or self._addresses.get(DEFAULT_NAME)
        if limit is None:
            return 0
        bucket = self._of_addresses.of(CONNECTION_CREATION_RATE, self._counted_as(host))
        return self._counted(CONNECTION_CREATION_RATE, bucket.take(1, limit, now_ms))

    def left(self, host: str) -> None:
        """See AddressQuotas."""
        self._of_addresses.of(CONNECTION_CREATION_RATE, self._counted_as(host)).give_back(1)

    def _counted_as(self, host: str) -> QuotaOwner:
        """The owner that a host counts for. A host that has a quota of its own counts by itself, also where its network
        is counted as one."""
        return QuotaOwner(host if host in self._addresses else network_of(host), None)

    def _counted(self, key: str, throttle_ms: int) -> int:
        if throttle_ms:
            self._throttled[key] += 1
            self._throttle_ms[key] += throttle_ms
        return throttle_ms

    def statistics(self) -> dict[str, QuotaStatistics]:
        """The statistics by key; may be called in any thread."""
        return {key: QuotaStatistics(self._throttled[key], self._throttle_ms[key]) for key in ALL_KEYS}

    def __repr__(self) -> str:
        return f"ClientQuotas({len(self._rates)} rates, {len(self._buckets) + len(self._of_addresses)} buckets)"


def _is_lifted(wait: _Wait, limit: Limit) -> bool:
    """True if the owner has a larger quota than the one that made it wait."""
    return limit.per_second > wait.per_second


class KeptByOwner(Generic[T]):
    """Keeps values by key and owner, no more than there is room for. The values of clients have room of their own: a
    client that makes up ids cannot push out the rate of its user."""

    def __init__(self, new: Callable[[], T]) -> None:
        self._new = new
        self._of_clients: OrderedDict[tuple[str, QuotaOwner], T] = OrderedDict()
        self._of_users: OrderedDict[tuple[str, QuotaOwner], T] = OrderedDict()

    def of(self, key: str, owner: QuotaOwner) -> T:
        kept = self._kept(owner)
        found = kept.get((key, owner))
        if found is None:
            if len(kept) >= OWNERS_MAX:
                kept.popitem(last=False)
            found = kept[key, owner] = self._new()
        else:
            kept.move_to_end((key, owner))
        return found

    def known(self, key: str, owner: QuotaOwner) -> T | None:
        """The value that is kept; None if no value is. The look-up does not count as use."""
        return self._kept(owner).get((key, owner))

    def _kept(self, owner: QuotaOwner) -> OrderedDict[tuple[str, QuotaOwner], T]:
        return self._of_users if owner.client_id is None else self._of_clients

    def clear(self) -> None:
        self._of_clients.clear()
        self._of_users.clear()

    def __len__(self) -> int:
        return len(self._of_clients) + len(self._of_users)
