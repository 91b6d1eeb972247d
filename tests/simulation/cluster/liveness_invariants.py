"""I30, now and then: who is silent is out of service, and who is alone leads no longer.

A broker that nobody hears of is fenced when its session is over, whoever is the controller by then. A leader of the
quorum that reaches no majority of the voters resigns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from broker.node.node import Node
from raft.core import RaftCore
from raft.quorum_state import Forgotten
from tests.simulation.cluster.durable_log import Violated
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.voters.voter_sets import VoterSets

if TYPE_CHECKING:
    from tests.simulation.cluster.scheduler import Process, Scheduler

ELECTION_SECONDS, STOP_SECONDS = 8.0, 4.0
CALM_WEATHER_SECONDS = 0.2
TIMEOUTS_OF_ASKERS = 2
"""So long does a voter go on asking a leader whose answers do not arrive, and the leader counts who asks (KIP-595): one
fetch time-out, and another if a voter that has heard of the leader since refuses it a pre-vote (KIP-996)."""
Ways = tuple[tuple[object, ...], ...]
HANG_STRETCH, HANG_SECONDS = 1.5, 4.0
"""A watch counts time in looks, and slowly where its event loop is late."""
LATE_SECONDS = 1.0
"""After the time-out: the controller looks now and then, and has to commit."""


class LivenessInvariants:
    """Looked at now and then."""

    def __init__(self, scheduler: Scheduler, machines: Sequence[Machine], sets: VoterSets) -> None:
        self._scheduler, self._machines, self._sets = scheduler, machines, sets
        self._stepped: dict[str, float] = {}
        """When a process of each machine took its last step."""
        self._active: dict[Process, float] = {}
        """Since when a controller is active, and can write."""
        self._alone: dict[Process, float] = {}
        """Since when a leader of the quorum reaches no majority."""
        self._ways: dict[Process, Ways] = {}
        """How it was then: a link that was mended since may have brought something."""

        self._calm_s = self._led_s = self._calm_stop_s = scheduler.now_s
        self._lives: dict[str, int] = {}
        self._stopping: dict[str, float] = {}

    def stepped(self, machine: Machine) -> None:
        self._stepped[machine.name] = self._scheduler.now_s

    def deep(self) -> None:
        self._fenced()
        self._resigned()
        self._calm()
        self._hung()

    def _hung(self) -> None:
        """I53: a log dir in which a call hangs is given up. I54: no event loop walks into one that hangs."""
        now_s = self._scheduler.now_s
        for machine in self._machines:
            process, node = machine.process, machine.node
            limit_s = HANG_STRETCH * machine.config.log_dir_hang_ms_max / 1000 + HANG_SECONDS
            for log_dir, hang in machine.faults.hung.items():
                if hang.wrong:
                    raise Violated(f"I54: {hang.wrong[0]}, which has hung for {now_s - hang.began_s:.1f} s")
                if process is None or node is None or process not in hang.waiting:
                    continue
                if process.is_paused or process in hang.caught or machine.asked_to_stop.is_set():
                    hang.waiting[process] = now_s
                elif now_s - hang.waiting[process] > limit_s and log_dir not in node.log_manager.calls.given_up:
                    waits_s = now_s - hang.waiting[process]
                    raise Violated(
                        f"I53: {machine.name} has waited for {log_dir} for {waits_s:.1f} s, and serves from it"
                    )

    def _calm(self) -> None:
        """While nothing is wrong with links and disks, voters elect a leader, and a broker that shall stop ends."""
        now_s = self._scheduler.now_s
        if not _is_calm(self._machines):
            self._calm_s = now_s
        controllers = [machine for machine in self._machines if machine.config.is_controller]
        up = [machine for machine in controllers if not is_down(machine) and not _has_forgotten(machine)]
        cores = [_core(machine) for machine in up]
        if any(core is not None and core.leadership is not None for core in cores):
            self._led_s = now_s
        started = [machine for machine in self._machines if self._lives.get(machine.name) != machine.lives]
        self._lives = {machine.name: machine.lives for machine in self._machines}
        if any(machine in controllers for machine in started) or not self._can_elect(up):
            self._led_s = now_s
        if now_s - max(self._calm_s, self._led_s) > ELECTION_SECONDS:
            silent_s = now_s - self._led_s
            raise Violated(
                f"I30: a majority of {self._sets.newest.keys} run and remember, and none has led for {silent_s:.1f} s"
            )
        stopping = [m for m in self._machines if m.process is not None and m.asked_to_stop.is_set()]
        self._stopping = {m.name: self._stopping.get(m.name, now_s) for m in stopping}
        others_run = len(stopping) == 1 and sum(machine.node is None for machine in self._machines) == 1
        if started or not others_run or self._led_s < now_s or any(map(_stands_as_before, self._machines)):
            self._calm_stop_s = now_s  # the controller waits for the session of a broker that has died
        for name, since_s in self._stopping.items():
            if now_s - max(since_s, self._calm_s, self._calm_stop_s) > STOP_SECONDS:
                raise Violated(f"I30: {name} was told to stop {now_s - since_s:.1f} s ago, and hands nothing over")

    def _can_elect(self, up: Sequence[Machine]) -> bool:
        """True if they are a majority of the committed voters, and of those that each of them goes by."""
        known = [core.voters for machine in up if (core := _core(machine)) is not None]
        counted = [self._sets.newest, *(voters for voters in known if voters.voters)]
        return all(sum(self._sets.is_of(voters, one) for one in up) >= voters.majority for voters in counted)

    def _resigned(self) -> None:
        now_s = self._scheduler.now_s
        alone = dict(self._leaders_alone())
        ways = {process: self._ways_of(machine) for process, machine in alone.items()}
        self._alone = {p: self._alone.get(p, now_s) if ways[p] == self._ways.get(p) else now_s for p in alone}
        self._ways = ways
        for process, machine in alone.items():
            timeout_s = machine.config.controller_quorum_fetch_timeout_ms / 1000
            time_outs = 1.5 + (TIMEOUTS_OF_ASKERS if _is_asked(machine, self._machines) else 0)
            if now_s - self._alone[process] > time_outs * timeout_s + LATE_SECONDS:
                raise Violated(
                    f"I30: {process.name} leads the quorum, and reaches no majority for"
                    f" {now_s - self._alone[process]:.1f} s"
                )

    def _leaders_alone(self) -> Iterator[tuple[Process, Machine]]:
        """The leaders of the quorum that no majority of voters can reach and answer. One that waits for its disk,
        because that is slow or full, cannot resign meanwhile; it commits nothing."""
        for machine in self._machines:
            core = _core(machine)
            if machine.process is None or machine.process.is_paused or core is None or core.leadership is None:
                continue
            if machine.faults.full or machine.faults.slow_seconds or machine.faults.hung:
                continue
            voters = self._sets.machines_of(core.voters)
            heard = [other for other in voters if other is machine or _reach(machine, other)]
            if len(heard) < core.voters.majority:
                yield machine.process, machine

    def _ways_of(self, machine: Machine) -> Ways:
        """A value that changes if the machine has reached anybody in between."""
        links, others = machine.network, [other for other in self._machines if other is not machine]
        core = _core(machine)
        return core.voters.keys if core is not None else (), *(
            (links.link(machine.name, o.name).cuts, links.link(o.name, machine.name).cuts)
            if not is_down(o)
            else (-1, self._stepped.get(o.name, 0.0))
            for o in others
        )

    def _fenced(self) -> None:
        now_s = self._scheduler.now_s
        silent = [machine for machine in self._machines if is_down(machine)]
        active = dict(_active(self._machines))
        heard = self._machines[0].network.heard_s
        silent_since = {m.name: max(self._stepped.get(m.name, now_s), heard.get(m.name, 0.0)) for m in silent}
        self._active = {process: self._active.get(process, now_s) for process in active}
        for process, node in active.items():
            for machine in silent:
                since_s = max(silent_since[machine.name], self._active[process])
                timeout_s = machine.config.broker_session_timeout_ms / 1000
                known = node.loader.image.brokers.get(machine.config.node_id)
                if known is not None and not known.fenced and now_s - since_s > timeout_s + LATE_SECONDS:
                    raise Violated(
                        f"I30: {machine.name} has said nothing for {now_s - silent_since[machine.name]:.1f} s, and the"
                        f" controller {process.name}, active for {now_s - self._active[process]:.1f} s, serves with it"
                    )


def _stands_as_before(machine: Machine) -> bool:
    """True of a broker that crashed, and by its own metadata is still in service as the process of before."""
    node = machine.node
    if node is None or node.broker is None:
        return False
    known = node.loader.image.brokers.get(machine.config.node_id)
    return known is not None and not known.fenced and known.incarnation_id != node.broker.lifecycle.incarnation_id


def _active(machines: Sequence[Machine]) -> Iterator[tuple[Process, Node]]:
    for machine in machines:
        process, node, faults = machine.process, machine.node, machine.faults
        is_up = process is not None and not process.is_paused and node is not None
        if is_up and not (faults.full or faults.failing or faults.slow_seconds or faults.hung or faults.fail_next):
            assert process is not None and node is not None
            core = node.raft.core
            has_decided = (
                core is not None and core.leadership is not None and core.high_watermark == core.log_end_offset
            )
            if node.controller is not None and node.controller.is_active and has_decided:
                yield process, node


def _is_asked(leader: Machine, machines: Sequence[Machine]) -> bool:
    """Some voter's words arrive there, even if no answer comes back."""
    voters = [machine for machine in machines if machine.config.is_controller and machine is not leader]
    links = leader.network
    return any(not is_down(voter) and not links.link(voter.name, leader.name).is_cut for voter in voters)


def _reach(one: Machine, other: Machine) -> bool:
    """They can talk to each other, or there are words under way."""
    links = one.network.link(one.name, other.name), one.network.link(other.name, one.name)
    return not is_down(other) and not any(link.is_cut for link in links)


def _is_calm(machines: Sequence[Machine]) -> bool:
    network = machines[0].network
    faults = [machine.faults for machine in machines]
    is_cut = any(link.is_cut for link in network.links.values())
    is_bad = any(f.full or f.failing or f.slow_seconds or f.hung or f.fail_next for f in faults)
    is_slow = network.weather.late_seconds > CALM_WEATHER_SECONDS and network.weather.late_per_mille > 0
    return not (is_cut or is_bad or is_slow or any(m.process is not None and m.process.is_paused for m in machines))


def _core(machine: Machine) -> RaftCore | None:
    core = machine.node.raft.core if machine.node is not None else None
    return core


def _has_forgotten(machine: Machine) -> bool:
    """It waits for a leader, and helps to elect none (ADR 0009)."""
    core = _core(machine)
    return core is not None and core.forgotten is not Forgotten.NOTHING


def is_down(machine: Machine) -> bool:
    return machine.process is None or machine.process.is_paused
