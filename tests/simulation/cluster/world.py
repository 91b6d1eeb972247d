"""A whole simulated cluster and its clients: one plan, from the first start to the verdict.

    Outcome = World(draw_plan(7)).run()

The story: all nodes start; topics are made; clients write and read while faults come and go; then everything is mended,
and within HEAL_SECONDS the cluster must be whole: every broker in service, every ISR full, every record answered, every
reader at the end, all replicas equal byte for byte. What must hold after each step is in invariants.py.
"""

from __future__ import annotations

import functools
import gc
import logging
import random
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Any
from zlib import crc32

from broker.config.config import parse_config
from metadata.controller.elections.preferred_leaders import PreferredLeaders
from metadata.features import TABLE
from penstock.errors import InvariantViolation
from penstock.ids import RandomIds
from penstock.testing.layout import Layout
from penstock.testing.ports import HOST, fixed_ports
from penstock.types import Endpoint
from tests.simulation.cluster import faults, torn_metadata
from tests.simulation.cluster.calendars.calendar_plan import CalendarSetting
from tests.simulation.cluster.calendars.keeper import FORGETS_S
from tests.simulation.cluster.clients.readers import find_ends, read_final
from tests.simulation.cluster.conditions import conditions, works
from tests.simulation.cluster.disk_faults import DiskWork
from tests.simulation.cluster.invariants import CheckedLedger, Invariants
from tests.simulation.cluster.levels.level_operator import LevelOperator
from tests.simulation.cluster.levels.rolled import OLDER_RELEASE, RolledNodes
from tests.simulation.cluster.log_places import between_log_dirs
from tests.simulation.cluster.loop import MachineTime
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.network import Network
from tests.simulation.cluster.plan import Fault, Kind, Plan, SecurityPlan
from tests.simulation.cluster.replicas import apart, misplaced, unequal
from tests.simulation.cluster.scheduler import Process, Scheduler, Stuck
from tests.simulation.cluster.security.secured import Secured, certificate, first_users, security_config
from tests.simulation.cluster.story_log import listening
from tests.simulation.cluster.transaction_invariants import undecided
from tests.simulation.cluster.transcript import Transcript
from tests.simulation.cluster.voters.beginning import QuorumBeginning
from tests.simulation.cluster.voters.voter_operator import VoterOperator, mend_voters
from tests.simulation.cluster.workload import Clients

START_SECONDS, HEAL_SECONDS, RESTART_SECONDS = 30.0, 60.0, 1.0
PORT = 9192
OUTSIDE_STEP = 400
KAFKA_STEP = 600
"""Above the port of BROKER."""
GROUP_SECONDS = 20.0
"""A session, the time that a rebalance may take, and what members wait between two tries, some times over."""
TRANSACTION_SECONDS = 12.0
"""The longest time-out of a transaction, and time to find its coordinator and to write its markers, some times over."""
WHOLE_SECONDS = 1.0
"""So long clients write to the whole cluster."""
MOVE_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
BALANCE_SECONDS_MAX = 10
"""Where the balance of leaders is looked at less often, no story ends with it."""
_pack_time = Struct("d").pack
LOOK_SECONDS = 0.05
"""A fault that waits for a cluster that works looks so often."""


@dataclass
class Outcome:
    """The outcome of a plan. `failures` is empty when all is well; `digest` follows from every step that was taken."""

    seed: int
    failures: list[str] = field(default_factory=list)
    digest: int = 0
    seconds: float = 0.0
    healed_seconds: float = 0.0
    steps: int = 0
    messages: int = 0
    acked: int = 0
    failed_records: int = 0
    worst_ack_ms: int = 0
    given_back: int = 0
    """Leaderships that went back to the preferred leaders by schedule."""
    moves: Counter[str] = field(default_factory=Counter)
    """Reassignments that were begun and cancelled, and brokers that were forgotten, or kept."""
    throttles: Counter[str] = field(default_factory=Counter)
    """How often operators have changed one, and how often one has held a copy."""
    faults: Counter[str] = field(default_factory=Counter)
    met: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each kind of fault came under each condition (conditions.py), by their names."""
    producers: Counter[str] = field(default_factory=Counter)
    """The brokers' actions on idempotent producers (producer_invariants.py)."""
    snapshots: Counter[str] = field(default_factory=Counter)
    """Snapshots of the metadata: on how many disks they were, and how many came from a leader."""
    security: Counter[str] = field(default_factory=Counter)
    """The answers to guests and impostors on a secured cluster."""
    log: list[str] = field(default_factory=list)
    """The story's lines, in order; each begins with the time in seconds."""


class World:
    """See the module."""

    def __init__(self, plan: Plan, *, transcript: bool = False) -> None:
        """`transcript`: the outcome's log has every change; see transcript.py."""
        self.plan = plan
        self.outcome = Outcome(plan.seed)
        draw = random.Random(f"world {plan.seed}")
        self.scheduler = Scheduler(draw)
        self.scheduler.after_step = self._after_step
        ids = RandomIds(random.Random(draw.getrandbits(64)))
        self._layout = Layout(Path("/machine"), ids.new_id(), fixed_ports(len(plan.nodes), PORT))
        at = {one: Endpoint(HOST, self._layout.ports[one].controller) for one in plan.voters}
        self.quorum = QuorumBeginning(plan.voter_changes, at, ids)
        self._machine_of = {port: f"node-{index}" for index, ports in enumerate(self._layout.ports) for port in ports}
        self._machine_of |= {
            ports.broker + step: self._machine_of[ports.broker]
            for ports in self._layout.ports
            for step in (OUTSIDE_STEP, KAFKA_STEP)
        }
        self.network = Network(self.scheduler, lambda endpoint: self._machine_of[endpoint.port])
        self.network.weather = plan.weather
        self.cluster_id = self._layout.cluster_id
        self.machines = [self._machine(index) for index in range(len(plan.nodes))]
        self._started_again: list[Machine] = []
        step = OUTSIDE_STEP if plan.outside else 0
        endpoints = [Endpoint(HOST, self._layout.ports[index].broker + step) for index in plan.brokers]
        kafka = [Endpoint(HOST, self._layout.ports[index].broker + KAFKA_STEP) for index in plan.brokers]
        self.invariants = Invariants(self.scheduler, self.machines)
        self.invariants.producers.dated = frozenset(writer.topic for writer in plan.writers if writer.is_dated)
        if plan.voter_changes is not None:
            self.invariants.quorum.sets.begin(self.quorum.first)
        ledger = CheckedLedger(self.invariants, plan)
        self.disks = DiskWork(self)
        for machine in self.machines:
            machine.lost_power = functools.partial(torn_metadata.keep_order, self)
        self.clients = Clients(
            self.network, plan, (endpoints, kafka), self._failed, ledger, self.invariants.clients, self
        )
        if plan.voter_changes is not None:
            sets = self.invariants.quorum.sets
            self.clients.voter_operator = VoterOperator(self.clients, plan.voter_changes, sets)
        if plan.levels is not None:
            history = self.invariants.quorum.levels
            self.clients.level_operator = LevelOperator(self.clients, plan.levels, history, RolledNodes(self.machines))
        if plan.security is not None:
            self.clients.secured = self.invariants.secured = self._secured(
                plan.security, dict(zip(plan.brokers, endpoints, strict=True))
            )
        self._story = self.scheduler.process("story")
        self.began_s = self.scheduler.now_s
        self._transcript = Transcript(self) if transcript else None

    def _secured(self, security: SecurityPlan, brokers: Mapping[int, Endpoint]) -> Secured:
        ports = self._layout.ports
        inter_broker = {index: Endpoint(HOST, ports[index].internal) for index in self.plan.brokers}
        controllers = {index: Endpoint(HOST, ports[index].controller) for index in self.plan.voters}
        return Secured(self.clients, security, self.cluster_id, brokers, inter_broker, controllers)

    def _machine(self, index: int) -> Machine:
        plan, node = self.plan, self.plan.nodes[index]
        ports = self._layout.ports[index]
        listeners, roles = [], []
        if node.is_broker:
            listeners += [f"BROKER://{HOST}:{ports.broker}", f"INTERNAL://{HOST}:{ports.internal}"]
            listeners += [f"OUTSIDE://{HOST}:{ports.broker + OUTSIDE_STEP}"] if plan.outside else []
            listeners += [f"KAFKA://{HOST}:{ports.broker + KAFKA_STEP}"] if plan.has_kafka else []
            roles.append("broker")
        if node.is_voter:
            listeners.append(f"CONTROLLER://{HOST}:{ports.controller}")
            roles.append("controller")
        config = parse_config(
            {
                **plan.config,
                "node.id": index,
                "process.roles": roles,
                "listeners": listeners,
                **self.quorum.config(),
                "log.dirs": [f"/machine/node-{index}/data-{number}" for number in range(node.log_dirs)],
                **security_config(plan, listeners),
                **(plan.racks.config(index) if plan.racks is not None and node.is_broker else {}),
            }
        )
        time = MachineTime(self.scheduler, node.clock_rate)
        for setting in plan.calendars.settings if plan.calendars is not None else ():
            if setting.node == index and setting.at_s < 0:
                time.set_calendar(setting.off_ms)
        machine = Machine(f"node-{index}", config, self.network, self._failed, time)
        machine.faults.cold_share, machine.faults.sync_seconds = plan.cold_share, plan.sync_seconds
        users, levels = first_users(plan) if node.is_voter else (), None
        if plan.levels is not None and index in plan.levels.old:
            machine.features = OLDER_RELEASE
        elif plan.levels is not None and not plan.levels.old and node.is_voter:
            levels = TABLE.newest()
        machine.format(self.cluster_id, users, self.quorum.options(index), levels)
        if plan.security is not None:
            self.network.certificates[machine.name] = certificate(self.cluster_id, index)
        return machine

    # -- what is seen --------------------------------------------------------------------------------------------------

    @property
    def brokers(self) -> list[Machine]:
        return [self.machines[index] for index in self.plan.brokers]

    def say(self, text: str) -> None:
        self.outcome.log.append(f"{self.scheduler.now_s - self.began_s:9.4f} {text}")

    def _failed(self, who: str, what: str, error: BaseException | None) -> None:
        self.fail(f"{who}: nobody has caught {error!r}: {what}")

    def fail(self, text: str) -> None:
        self.say(f"FAILED: {text}")
        self.outcome.failures.append(text)

    def _after_step(self, process: Process) -> None:
        self.outcome.digest = crc32(process.digest_name + _pack_time(self.scheduler.now_s), self.outcome.digest)
        if self._transcript is not None:
            self._transcript.after_step(process)
        self.invariants.after_step(process)

    # -- the story -----------------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """The whole story. Whatever is wrong stands in the outcome."""
        level = logging.WARNING if self._transcript is None else logging.INFO
        with _quiet_end(self), listening(self.scheduler, self.say, level):
            try:
                self._tell()
            except Stuck as error:
                self.fail(f"stuck: {error}")
            except AssertionError as error:
                self.fail(f"{error}")
            except Exception as error:
                self.fail(f"the story broke off: {error!r}")
                self.say("".join(traceback.format_exception(error)))
        for machine in self.machines:
            for error in machine.refusals:
                if isinstance(error, InvariantViolation):
                    self.fail(f"{machine.name} found a mistake of its own: {error}")
        outcome, scheduler = self.outcome, self.scheduler
        outcome.seconds, outcome.steps = scheduler.now_s - self.began_s, scheduler.steps
        outcome.messages = self.network.carried
        clients = self.clients
        outcome.acked, outcome.failed_records = clients.acked, clients.failed_records
        outcome.worst_ack_ms = clients.worst_ack_ms
        outcome.given_back = self.invariants.given_back()
        outcome.throttles = Counter(changed=clients.calls["throttles changed"], held=self.invariants.copies_held)
        for stopped in self.invariants.quorum.levels.stopped():
            self.fail(stopped)
        shown = ("moves ", "brokers ", "voters ", "levels ")
        outcome.moves = Counter({what: count for what, count in clients.calls.items() if what.startswith(shown)})
        outcome.moves["moves between log dirs completed"] = self.invariants.moved_logs
        outcome.producers = self.invariants.producers.counted()
        outcome.producers["possible_duplicates"] = clients.doubts()
        outcome.snapshots = self.invariants.quorum.snapshots
        outcome.security = Counter(clients.secured.oracle.counts if clients.secured is not None else {})
        return outcome

    def _tell(self) -> None:
        clients = self.clients
        for machine in self.machines:
            machine.start()
        self._until(self.all_in_service, START_SECONDS, "every node is in service after the first start")
        if clients.secured is not None:
            clients.spawn(clients.secured.begin())
            self._until(lambda: clients.is_idle, START_SECONDS, "everybody has rights")
        clients.spawn(clients.create_topics())
        self._until(lambda: clients.is_idle, START_SECONDS, "every topic is made")
        self._writing = [clients.spawn(writing) for writing in clients.writes()]
        for reading in clients.reads():
            clients.spawn(reading)
        begin_s = self.scheduler.now_s
        if self.plan.faults:
            self.at(begin_s + self.plan.faults[0].at_s, lambda: self._next(0, self.scheduler.now_s))
        for setting in self.plan.calendars.settings if self.plan.calendars is not None else ():
            if setting.at_s >= 0:
                self.at(begin_s + setting.at_s, functools.partial(self._set_calendar, setting))
        self._run_to(begin_s + self.plan.seconds)
        for broken in clients.quotas.broken():
            self.fail(broken)
        self._heal()

    def _next(self, number: int, due_s: float) -> None:
        """Begins a fault when the cluster works or it has waited long enough; the next comes in its time after it."""
        fault, now_s = self.plan.faults[number], self.scheduler.now_s
        if self.is_healing:
            return
        if now_s < due_s + fault.waits_s and not works(self):
            self.at(now_s + LOOK_SECONDS, lambda: self._next(number, due_s))
            return
        self._begin(faults.aimed(self, fault))
        if number + 1 < len(self.plan.faults):
            next_s = now_s + self.plan.faults[number + 1].at_s - fault.at_s
            self.at(next_s, lambda: self._next(number + 1, next_s))

    def _begin(self, fault: Fault) -> None:
        self.say(f"fault: {fault}")
        self.outcome.faults[fault.kind.name] += 1
        self.outcome.met.update((fault.kind.name, condition.name) for condition in conditions(self, fault))
        end = faults.begin(self, fault)

        def over() -> None:
            if not self.is_healing:
                self.say(f"over: {fault.kind} of {fault.at_s:.2f} s")
                end()

        self.at(self.scheduler.now_s + fault.seconds, over)

    def lacks_a_disk(self) -> bool:
        """True if a disk is lost, and the cluster does not know of it yet (workload.Site)."""
        return self.invariants.has_excused() or any(map(self._gives_up, self.machines))

    def _gives_up(self, machine: Machine) -> bool:
        """It has been started without a log dir, and the metadata still has that: a replica that is placed there has no
        log dir yet, so it is lost with any."""
        known = self.invariants.metadata.newest.brokers.get(machine.config.node_id)
        return known is not None and not set(known.log_dirs).isdisjoint(machine.config.lost_log_dirs)

    def take_out(self, broker_id: int, seconds: float) -> None:
        """An operator stops a broker in order, and starts it again later; not one whose disks he has to mend."""
        machine = self.machines[broker_id]
        if self.is_healing or self.disks.is_open(machine) or self.disks.why_not_stopped(machine):
            return
        self.say(f"{machine.name} is taken out of service for {seconds:.2f} s")
        machine.is_held = True
        machine.stop()

        def end() -> None:
            machine.is_held = False
            machine.start()

        self.at(self.scheduler.now_s + seconds, self.disks.began(machine, end))

    def replace_disk(self, index: int, amount: float) -> None:
        """All log dirs of a node are lost for a while, and replaced (workload.Site)."""
        seconds = 0.2 + amount
        fault = Fault(self.scheduler.now_s - self.began_s, Kind.REPLACE_DISK, index, index, seconds, amount)
        self.at(self.scheduler.now_s, lambda: None if self.is_healing else self._begin(fault))

    def is_last(self, broker_id: int) -> bool:
        """True if no other broker is in service, or only such as are held (workload.Site)."""
        active = (broker.broker_id for broker in self.invariants.metadata.newest.active_brokers())
        return all(other == broker_id or self.machines[other].is_held for other in active)

    is_healing = False
    rolls_under_way = 0

    def _supervise(self) -> None:
        """Starts what is down, now and then, as a service manager does. While everything is mended, a person starts a
        node again, once, that was late to notice an error of its disk from before."""
        for machine in self.machines:
            if self.clients.is_mended and machine.has_offline_logs and machine not in self._started_again:
                self._started_again.append(machine)
                machine.kill()
            machine.start()
        self.at(self.scheduler.now_s + RESTART_SECONDS, self._supervise)

    def _heal(self) -> None:
        """Mends everything, and requires the cluster to become whole."""
        clients = self.clients
        began_s = self.scheduler.now_s
        self.is_healing = True
        self.say("everything is mended")
        self._supervise()
        names = [machine.name for machine in self.machines] + [clients.name]
        for source in names:
            for target in names:
                self.network.mend(source, target)
        self.network.weather = self.plan.weather
        self.network.late_next.clear()
        self.disks.end_all()
        for index in {setting.node for setting in self.plan.calendars.settings} if self.plan.calendars else ():
            self.machines[index].time.set_calendar(0)
        for machine in self.machines:
            machine.mend_disks()
            machine.power_back()
            machine.go_on()
            machine.start()
        clients.is_mended = True
        self._until(self.all_in_service, HEAL_SECONDS, "every node is in service again")
        self._until(self.isrs_are_full, HEAL_SECONDS, "every partition has a leader and a full ISR")
        for wrong in mend_voters(self.clients, lambda come, what: self._until(come, HEAL_SECONDS, what)):
            self.fail(wrong)
        clients.whole_ms = clients.time.now_ms()
        self._run_to(self.scheduler.now_s + WHOLE_SECONDS)
        clients.is_over = True
        if self.plan.byte_rate is not None:
            clients.spawn(clients.lift_quotas())
        self._until(lambda: not self._led_elsewhere(), HEAL_SECONDS, "I40: the preferred leaders lead")
        self._until(lambda: not self._replicas_apart(), HEAL_SECONDS, "I44: brokers have equally many replicas")
        self._until(lambda: not self._on_the_move(), HEAL_SECONDS, "I42: what moved is where it should be, alone")
        moving_s = HEAL_SECONDS + self._moving_seconds()
        self._until(lambda: not between_log_dirs(self.brokers), moving_s, "I50: no replica moves between log dirs")
        self._until(lambda: not misplaced(self.brokers), HEAL_SECONDS, "the metadata names the log dir of each replica")
        self._until(lambda: all(w.done() for w in self._writing), HEAL_SECONDS, "every record is answered")
        self._until(self._all_committed, HEAL_SECONDS, "every record is committed")
        self._until(lambda: not self._undecided(), TRANSACTION_SECONDS, "I70: every transaction has ended")
        clients.count_partitions(self.invariants.metadata.newest)
        self._until(lambda: not self._unrest(), GROUP_SECONDS, "I64: every group is stable")
        clients.spawn(find_ends(clients))
        self._until(lambda: clients.is_idle, HEAL_SECONDS, "every reader is at the end")
        if clients.processings:
            self._find_outputs()
        if clients.secured is not None:
            clients.spawn(clients.secured.read_final())
        clients.spawn(read_final(clients))
        self._until(lambda: clients.is_idle, HEAL_SECONDS, "everything can be read again")
        self._until(lambda: not self._unequal(), HEAL_SECONDS, "all replicas are equal")
        self.invariants.at_end(clients.worst_ack_ms)
        self.outcome.healed_seconds = self.scheduler.now_s - began_s
        for wrong in clients.judge():
            self.fail(wrong)
        if clients.keeper is not None:
            clients.spawn(clients.keeper.ends())
            self._until(lambda: clients.is_idle, 2 * FORGETS_S, "I91: everything is forgotten in its time")
            for wrong in clients.keeper.wrong:
                self.fail(wrong)

    def _set_calendar(self, setting: CalendarSetting) -> None:
        """A clock is set while its node runs, or is down."""
        if not self.is_healing:
            self.say(f"node-{setting.node}'s calendar is off by {setting.off_ms / 86_400_000:.2f} days")
            self.machines[setting.node].time.set_calendar(setting.off_ms)

    def _find_outputs(self) -> None:
        """Groups that process write on until they are at the ends of what they read: those of what they made are known
        when the last has ended."""
        self._until(self._all_committed, HEAL_SECONDS, "everything that was made is committed")
        self._until(lambda: not self._undecided(), TRANSACTION_SECONDS, "I70: every transaction has ended")
        self.clients.ends = None
        self.clients.spawn(find_ends(self.clients))
        self._until(lambda: self.clients.is_idle, HEAL_SECONDS, "the ends of what was made are told")

    # -- time ----------------------------------------------------------------------------------------------------------

    def at(self, when_s: float, work: Callable[[], object]) -> None:
        self.scheduler.at(when_s, self._story, work)

    def _run_to(self, when_s: float) -> None:
        reached: list[bool] = []
        self.at(when_s, lambda: reached.append(True))
        self.scheduler.run(reached)

    def _unrest(self) -> list[str]:
        """Why groups are not stable. A member that has failed is an error of the story."""
        self.clients.raise_failures()
        return [text for group in self.clients.groups if (text := group.unrest())]

    def _until(self, has_come: Callable[[], bool], seconds: float, what: str) -> None:
        """Looked at now and then: `has_come` may cost something."""
        limit_s = self.scheduler.now_s + seconds
        while not has_come():
            if self.scheduler.now_s > limit_s:
                raise AssertionError(f"not within {seconds:.0f} s: {what}: {'; '.join(self._states())}")
            self._run_to(self.scheduler.now_s + 0.05)

    def _states(self) -> Iterator[str]:
        for machine in self.machines:
            node = machine.node
            if node is None:
                last = f", {machine.refusals[-1]!r}" if machine.refusals else ""
                yield f"{machine.name} is {'starting' if machine.is_up else 'down'}{last}"
            else:
                yield f"{machine.name}: {node.status()}"
        yield from self._isr_troubles()
        yield from self._undecided()
        yield from self._unrest()
        if self.plan.voter_changes is not None:
            yield f"voters {self.invariants.quorum.sets!r}: {self.invariants.quorum.sets.unknown()}"

    def all_in_service(self) -> bool:
        return all(machine.is_in_service for machine in self.machines)

    # -- partitions ----------------------------------------------------------------------------------------------------

    def isrs_are_full(self) -> bool:
        return not any(True for _ in self._isr_troubles())

    def _isr_troubles(self) -> Iterator[str]:
        node = next((machine.node for machine in self.machines if machine.node is not None), None)
        for name, topic in node.loader.image.topics_by_name.items() if node is not None else ():
            for number, partition in topic.partitions.items():
                if partition.leader_id < 0 or set(partition.isr) != set(partition.replicas):
                    yield f"{name}-{number}: {partition}"

    def _on_the_move(self) -> list[str]:
        """I42: the partitions that are being reassigned, and the replicas that brokers have and should not."""
        node = next((machine.node for machine in self.machines if machine.node is not None), None)
        if node is None:
            return ["every node is down"]
        image = node.loader.image
        found = [f"{p}" for t in image.topics_by_id.values() for p in t.partitions.values() if p.is_reassigning]
        for broker in self.brokers:
            hosted = broker.node.broker.replication.replicas.hosted.all() if broker.node and broker.node.broker else ()
            for partition in hosted:
                known = image.partition(*partition.topic_partition)
                if known is None or broker.config.node_id not in known.replicas:
                    found.append(f"{broker.name} has {partition}")
        return found

    def _replicas_apart(self) -> bool:
        """I44: whether two brokers differ by more than one replica, where replicas are balanced by schedule; looked at
        while nothing moves, because a balance that is never done passes that by."""
        node = next((machine.node for machine in self.machines if machine.node is not None), None)
        if node is None or not self.machines[0].config.auto_replica_balance_enable:
            return node is None
        return bool(self._on_the_move()) or apart(node.loader.image) > 1

    def _moving_seconds(self) -> float:
        """The time that the throttle of moves between log dirs takes for all logs of a broker."""
        rate = self.plan.config.get(MOVE_RATE)
        sizes = (
            sum(partition.log.size_bytes for partition in broker.node.broker.replication.replicas.hosted.all())
            for broker in self.brokers
            if broker.node is not None and broker.node.broker is not None
        )
        return 0.0 if rate is None else max(sizes, default=0) / int(str(rate))

    def _led_elsewhere(self) -> list[str]:
        """I40: of each broker not more than the share that the balance of leaders lets pass."""
        config = self.machines[0].config
        node = next((machine.node for machine in self.machines if machine.node is not None), None)
        if node is None or config.leader_imbalance_check_interval_seconds > BALANCE_SECONDS_MAX:
            return []
        index = PreferredLeaders()
        for topic in node.loader.image.topics_by_id.values():
            for partition in topic.partitions.values():
                index.put(partition)
        above = index.brokers_above(config.leader_imbalance_per_broker_percentage)
        return [f"broker {broker_id}" for broker_id in above]

    def _all_committed(self) -> bool:
        """A record with acks=1 may be answered before."""
        brokers = [machine.node.broker for machine in self.machines if machine.node is not None]
        partitions = (
            each for broker in brokers if broker is not None for each in broker.replication.replicas.hosted.all()
        )
        return all(each.leading is None or each.high_watermark == each.log.log_end_offset for each in partitions)

    def _undecided(self) -> list[str]:
        """I70: the transactions that have not ended, and where."""
        return list(undecided(self.invariants.partitions.transactions.decisions, self.brokers))

    def _unequal(self) -> list[str]:
        """Partitions whose replicas differ now."""
        return unequal(self.brokers, self.plan.topics, self.clients.counts)

    # -- what faults ask -----------------------------------------------------------------------------------------------

    def cut(self, ways: Iterable[tuple[str, str]]) -> Callable[[], object]:
        """Cuts links; returns what mends them."""
        cut = list(ways)
        for source, target in cut:
            self.network.cut(source, target)
        return lambda: [self.network.mend(source, target) for source, target in cut]

    def roll(self) -> None:
        """Restarts node after node in order, each when the one before is in service again."""
        left = list(self.machines)

        def turn() -> None:
            if not left or self.is_healing:
                self.rolls_under_way -= 1
                return
            if self.all_in_service():
                left.pop(0).stop()
            else:
                for machine in self.machines:
                    machine.start()
            self.at(self.scheduler.now_s + 0.3, turn)

        self.rolls_under_way += 1
        turn()


@contextmanager
def _quiet_end(world: World) -> Iterator[None]:
    """At the end, processes are dropped where they stand; what Python says of that is of no interest."""
    hook = sys.unraisablehook
    sys.unraisablehook = _say_nothing
    was_enabled = gc.isenabled()
    gc.disable()  # what is collected runs code of dead processes, at a time that no seed decides
    try:
        yield
    finally:
        for machine in world.machines:
            for process in (*machine.dead, machine.process):
                if process is not None:
                    process.kill()
        world.clients.process.kill()
        gc.collect()
        gc.freeze()  # the fibers of dead processes stay: the end of the next world need not look at them again
        sys.unraisablehook = hook
        if was_enabled:
            gc.enable()


def _say_nothing(_: Any) -> None: ...
