"""Keeps this broker registered with the controller: registration, heartbeats, unfencing.

    register ──► catch up with the registration's own offset ──► take roles ──► heartbeat ──► unfenced ──► …
                                                                                 └─ want_shut_down ─► should_shut_down

The broker asks to be unfenced only AFTER it has acted on an image that contains its own registration, and after its
calendar was compared with those of the other brokers: a leader stamps, and holds producers' times against its calendar.
It waits for that comparison no longer than a session of one controller (calendar_comparison.py).

A heartbeat names the log dirs that have failed since the process started. The controller then takes exactly the
replicas in them from their ISRs, and says so in its answer. It also tells the node's calendar, and the answer says
whether that agrees with those of the other brokers.

Each answer is a lease of what this broker leads (quorum/lead_lease.py). It is given up BEFORE this broker asks for
anything that takes leaderships from it.

While it runs, it registers again in these cases; each is logged and counted:

- The controller does not know its broker epoch any more. It registers with the same incarnation id: it is the same
  process.
- The controller's image says that this broker is shutting down, but nobody asked this process to stop. (Any process
  that can connect to the controller can claim that.) It registers as its own successor, with a new incarnation id:
  nothing else leads out of that state. The same if the image says that a log dir has failed which has not.
- It lost a replica to its disk, and the controller cannot know which one: the log dir of the replica has not failed, or
  the metadata does not name it, or the controller is of an older release. It registers as its own successor. The
  controller then removes it from every ISR that has another member and moves its leaderships; it rejoins the ISRs whose
  partitions it can still follow. Leaders remember its earlier fetches under the old broker epoch, so these let no lost
  replica into an ISR again (KIP-903).
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Set
from dataclasses import replace
from random import Random

from broker.node.registration.calendar_comparison import NO_CALENDAR, CalendarComparison, SharedCalendar
from broker.node.registration.controlled_shutdown import may_shut_down
from broker.node.registration.replica_losses import ReplicaLosses
from broker.quorum.controller_channel import ControllerChannel
from broker.quorum.lead_lease import Grant, LeadLease
from broker.quorum.metadata_loader import MetadataLoader
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from penstock.backoff import Backoff
from penstock.errors import (
    ApiError,
    BrokerIdNotRegisteredError,
    DuplicateBrokerRegistrationError,
    InconsistentClusterIdError,
    InvalidRegistrationError,
    StaleBrokerEpochError,
)
from penstock.ids import Ids
from penstock.messages.nodes.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    HostedReplicas,
    RegisterBrokerRequest,
)
from penstock.metric_fields import counter, gauge, measured
from penstock.types import NO_EPOCH, NO_OFFSET

_log = logging.getLogger(__name__)

RETRY_MS = 50
RETRY_MS_MAX = 200
"""A broker that is not registered serves no client. A new process that waits for the end of its
predecessor's session registers at most this long after that end."""


@measured
class LifecycleStatistics:
    """Where this broker stands with the controller."""

    is_fenced: bool = gauge(
        "penstock_broker_fenced", "1 while the controller keeps this broker fenced or none answers it, else 0."
    )
    broker_epoch: int
    """Its registration's; -1 without one."""
    registrations_anew: int = counter(
        "penstock_broker_registrations_anew",
        "Registrations repeated while this broker ran: its epoch was stale, others stopped it, or a replica was lost.",
    )


class BrokerLifecycle:
    """Runs until stopped; `unfenced` is set once the controller lets this broker serve."""

    def __init__(
        self,
        registration: RegisterBrokerRequest,
        channel: ControllerChannel,
        loader: MetadataLoader,
        *,
        ids: Ids,
        random: Random,
        heartbeat_interval_ms: int,
        session_timeout_ms: int,
        lease: LeadLease,
        losses: ReplicaLosses,
        hosted_replicas: Callable[[], tuple[HostedReplicas, ...]],
        on_registered: Callable[[int], None],
        on_caught_up: Callable[[], None],
        on_fenced_changed: Callable[[bool], None] = lambda may_serve: None,
        failed_log_dirs: Callable[[], Set[str]] = frozenset,
        cordoned_log_dirs: Callable[[], Set[str]] = frozenset,
        calendar: SharedCalendar = NO_CALENDAR,
    ) -> None:
        """`losses` has the news of replicas that were lost here; `on_fenced_changed` is told whether the controller
        lets this broker serve, whenever that changes; `failed_log_dirs` are ids of the registered ones that have
        failed, `cordoned_log_dirs` of those that get no new replicas."""
        self.unfenced = asyncio.Event()
        self.broker_epoch = NO_EPOCH
        self._registration = registration
        self._channel = channel
        self._loader = loader
        self._ids = ids
        self._backoff = Backoff(RETRY_MS, RETRY_MS_MAX, random)
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._session_timeout_ms = session_timeout_ms
        self._lease = lease
        self._answered_s = 0.0  # by the loop's clock
        # A heartbeat that got lost must leave time for another one in the same session.
        self._heartbeat_timeout_ms = max(1, min(heartbeat_interval_ms * 4, session_timeout_ms // 2))
        self._losses = losses
        self._hosted_replicas = hosted_replicas
        self._on_registered = on_registered
        self._on_caught_up = on_caught_up
        self._on_fenced_changed = on_fenced_changed
        self._failed_log_dirs, self._cordoned_log_dirs = failed_log_dirs, cordoned_log_dirs
        self._registered_without: Set[str] = frozenset()
        """The log dirs that had failed before the last registration."""
        self._reported_failed: Set[str] = frozenset()
        """The failed log dirs of the last heartbeat."""
        self._may_unfence = False
        self._comparison = CalendarComparison(registration.broker_id, calendar, session_timeout_ms)
        self._is_stopping = False
        self._registrations_anew = 0
        self._unfencings = 0
        """The number of the next line about one: the log leaves repetitions out, and would end with a broker that is
        fenced."""
        self._task: asyncio.Task[None] | None = None

    @property
    def incarnation_id(self) -> str:
        """The name of this process in its registration."""
        return self._registration.incarnation_id

    def start(self) -> asyncio.Task[None]:
        """The task that keeps this broker registered; it ends only by `stop` or by an error that is final."""
        self._task = asyncio.create_task(self._run(), name="broker-lifecycle")
        return self._task

    async def _run(self) -> None:
        await self._register_new_process()
        while True:
            try:
                if why := self._reason_to_succeed_itself():
                    await self._register_as_successor(why)
                asked = self._comparison.asks_to_serve(_now_ms())
                self._note_fenced(await self._heartbeat())
                if not asked and self._comparison.asks_to_serve(_now_ms()):
                    continue  # the verdict has come
            except (StaleBrokerEpochError, BrokerIdNotRegisteredError) as error:
                await self._register_again(error)
                continue
            except ApiError as error:
                _log.warning("heartbeat: %s", error)
                self._comparison.not_answered()
                self._note_silence()
            await self._losses.wait(self._heartbeat_interval_ms / (10_000 if self._is_in_a_hurry() else 1000))

    def _is_in_a_hurry(self) -> bool:
        return not self.unfenced.is_set() or self._comparison.hurries(_now_ms())

    def published(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Other brokers may have come, and the controller may be another one."""
        if self._comparison.published(image.brokers.keys(), image.epoch, _now_ms()):
            self._losses.hasten()

    def _reason_to_succeed_itself(self) -> str:
        """Why this broker must register as its own successor now; "" when it need not."""
        if self._losses.is_open:
            return "a replica is lost"
        known = self._loader.image.brokers.get(self._registration.broker_id)
        if known is None or known.broker_epoch != self.broker_epoch or self._is_stopping:
            return ""
        if known.in_controlled_shutdown:
            return "the controller takes this broker for one that shuts down, and nobody asked this process to stop"
        mistaken = set(self._registration.log_dirs).intersection(known.offline_log_dirs) - self._failed_log_dirs()
        return f"the controller takes log dir {min(mistaken)} for failed, and it is not" if mistaken else ""

    def _note_silence(self) -> None:
        """Fences this broker after a session without an answer: the controller has fenced it, or no controller is
        there."""
        silent_ms = self._silent_ms()
        if self.unfenced.is_set() and silent_ms >= self._session_timeout_ms:
            self._fenced(f"no controller has answered broker %d for {silent_ms:.0f} ms: it may be fenced")

    def _fenced(self, why: str) -> None:
        self._lease.give_up()
        self.unfenced.clear()
        self._on_fenced_changed(False)
        if not self._is_stopping:
            _log.warning(f"{why} (unfenced so far: %d)", self._registration.broker_id, self._unfencings)

    def _note_fenced(self, answer: BrokerHeartbeatResponse) -> None:
        broker_id = self._registration.broker_id
        if answer.is_fenced and self.unfenced.is_set():
            self._fenced("broker %d is fenced by the controller: it leads nothing until it is unfenced")
        elif not answer.is_fenced and not self.unfenced.is_set():
            self._unfencings += 1
            _log.info("broker %d is unfenced, time %d, epoch %d", broker_id, self._unfencings, self.broker_epoch)
            self._on_fenced_changed(True)
            self.unfenced.set()

    async def _register_as_successor(self, why: str) -> None:
        """Register with the previous broker epoch, as after a clean stop: this process knows that it has ended
        itself."""
        _log.warning("%s: broker %d registers anew", why, self._registration.broker_id)
        self._registration = replace(
            self._registration, incarnation_id=self._ids.new_id(), previous_broker_epoch=self.broker_epoch
        )
        self._registrations_anew += 1
        await self._register_new_process()

    async def _register_again(self, why: ApiError) -> None:
        """Register as the same process, without a previous broker epoch, as after an unclean stop."""
        _log.warning("heartbeat: %s; broker %d registers anew", why, self._registration.broker_id)
        self._registration = replace(self._registration, previous_broker_epoch=NO_OFFSET)
        self._registrations_anew += 1
        await self._register()

    async def _register_new_process(self) -> None:
        """Register under a new incarnation id: this leaves every ISR, and the ELRs of replicas that are not named.

        What is lost from now on may have been named, by an attempt whose answer was lost, too: it needs another one.
        """
        self._losses.settle()
        await self._register()

    async def _register(self) -> None:
        self._lease.give_up()
        failures = 0
        while True:
            try:
                failed = frozenset(self._failed_log_dirs())
                answer = await self._channel.call(self._request_without(failed))
                break
            except (InconsistentClusterIdError, InvalidRegistrationError) as error:
                if self.broker_epoch == NO_EPOCH:
                    raise  # the first registration of this process was refused: the start fails
                _log.error(
                    "registration: %s; this process was registered before, so another process must have used its node"
                    " id: find and stop that process",
                    error,
                )
            except DuplicateBrokerRegistrationError as error:
                _log.warning("registration: %s; waiting for that session to end", error)
            except ApiError as error:
                _log.warning("registration: %s; retrying", error)
            failures += 1
            await asyncio.sleep(self._backoff.wait_ms(failures) / 1000)
        self.broker_epoch, self._registered_without = answer.broker_epoch, failed
        if answer.unknown_lost_log_dirs:
            _log.warning(
                "--lost-log-dirs %s : broker %d was not registered with these ids, so nothing was given up; it is"
                " registered with %s. Correct the id, or leave the option out if the dir was given up before",
                ",".join(answer.unknown_lost_log_dirs),
                self._registration.broker_id,
                ", ".join(self._registration.log_dirs),
            )
        # Only the first registration gives dirs up, with replicas in them.
        self._registration = replace(self._registration, lost_log_dirs=(), replicas=())
        self._on_registered(self.broker_epoch)
        await self._loader.wait_for_offset(self.broker_epoch)
        if not self._may_unfence:
            self._on_caught_up()
            self._may_unfence = True
            self._comparison.caught_up(_now_ms())

    def _request_without(self, failed: Set[str]) -> RegisterBrokerRequest:
        registered = self._registration.log_dirs
        online = tuple(log_dir for log_dir in registered if log_dir not in failed)
        dead = self._registration.failed_log_dirs + len(registered) - len(online)
        replicas = (*self._registration.replicas, *self._hosted_replicas())
        return replace(self._registration, log_dirs=online, failed_log_dirs=dead, replicas=replicas)

    async def _heartbeat(self, *, want_shut_down: bool = False) -> BrokerHeartbeatResponse:
        failed, sent_ms = self._failed_log_dirs(), self._lease.now_ms()
        if not failed <= self._reported_failed:
            self._lease.give_up()
        self._reported_failed = frozenset(failed)
        answer = await self._channel.call(
            BrokerHeartbeatRequest(
                self._registration.cluster_id,
                self._registration.broker_id,
                self.broker_epoch,
                self._loader.image.offset if self._comparison.asks_to_serve(_now_ms()) else NO_OFFSET,
                want_shut_down=want_shut_down,
                offline_log_dirs=tuple(sorted(failed)),
                calendar_ms=self._comparison.calendar.calendar_ms(),
                cordoned_log_dirs=tuple(sorted(self._cordoned_log_dirs())),
            ),
            self._heartbeat_timeout_ms,
        )
        self._answered_s = asyncio.get_running_loop().time()
        self._comparison.answered(_now_ms())
        if not isinstance(answer, BrokerHeartbeatResponse):
            raise TypeError(f"heartbeat was answered with {answer!r}")
        self._comparison.calendar.judged(answer.calendar, answer.calendar_off_ms)
        if failed - self._registered_without - set(answer.offline_log_dirs):
            self._losses.post()  # an older controller: it does not know which replicas are in a log dir
        if not (answer.is_fenced or answer.should_shut_down or self._is_stopping):
            grant = Grant(sent_ms, answer.silent_ms, answer.must_have_read, answer.session_timeout_ms)
            self._lease.granted(grant)
        return answer

    async def controlled_shutdown(self) -> bool:
        """Ask the controller to move this broker's leaderships away; True when it lets the broker stop."""
        self._is_stopping = True
        self._lease.give_up()
        ask = functools.partial(self._heartbeat, want_shut_down=True)
        return await may_shut_down(ask, self._silent_ms, self._session_timeout_ms)

    def _silent_ms(self) -> float:
        """The time since the controller's last answer."""
        return (asyncio.get_running_loop().time() - self._answered_s) * 1000

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def statistics(self) -> LifecycleStatistics:
        return LifecycleStatistics(not self.unfenced.is_set(), self.broker_epoch, self._registrations_anew)


def _now_ms() -> float:
    """The loop's clock."""
    return asyncio.get_running_loop().time() * 1000
