"""The probe of a simulated node: what it hears in the moment of a change goes to the invariants that compare it then.

It hears from the first step on that shows the process's node to the invariants. Not here: what they make of it.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.network.request_channel import Request
from broker.node.environment import Probe
from broker.node.node import Node
from broker.replication.hosting.hosted_partitions import HostedPartitions
from penstock.errors import ApiError
from penstock.messages.nodes.partitions import AlterPartitionRequest, AlterPartitionResponse
from raft.messages import Request as QuorumRequest
from raft.messages import Response, VoteRequest
from tests.simulation.cluster.claim_invariants import ClaimInvariants
from tests.simulation.cluster.client_invariants import ClientInvariants
from tests.simulation.cluster.coordinator_invariants import wrong_append
from tests.simulation.cluster.file_claims import HeardLogs
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.quorum_invariants import QuorumInvariants, end_of


class HeardNode(Probe):
    """One process of one machine."""

    def __init__(
        self,
        machine: Machine,
        logs: HeardLogs,
        quorum: QuorumInvariants,
        claims: ClaimInvariants,
        clients: ClientInvariants,
        note: Callable[[str], None],
    ) -> None:
        """`note` is told of what is wrong in the middle of a step."""
        self.logs, self._note = logs, note
        self._machine, self._quorum, self._claims, self._clients = machine, quorum, claims, clients
        self._node: Node | None = None
        self._hosted: HostedPartitions | None = None
        self._ends: dict[int, tuple[int, int]] = {}
        """The end of the metadata log when a request of another voter came, by the request's identity."""

    def begin(self, node: Node, hosted: HostedPartitions) -> None:
        self._node, self._hosted = node, hosted

    # -- the quorum ----------------------------------------------------------------------------------------------------

    def quorum_asking(self, request: QuorumRequest) -> None:
        if self._node is not None:
            self._quorum.asking(self._machine, request)

    def quorum_handling(self, request: QuorumRequest) -> None:
        if self._node is not None:
            self._ends[id(request)] = end_of(self._node.raft) if isinstance(request, VoteRequest) else (0, 0)

    def quorum_answering(self, request: QuorumRequest, response: Response) -> None:
        before = self._ends.pop(id(request), None)
        if self._node is not None and before is not None:
            self._quorum.answering(self._machine, request, response, min(before, end_of(self._node.raft)))

    # -- logs ----------------------------------------------------------------------------------------------------------

    def appending(self, directory: str) -> None:
        self.logs.appending(directory)
        partition = self.logs.partition(directory)
        if self._node is not None and partition is not None and (why := wrong_append(self._node, partition)):
            self._note(f"I75: {self._machine.name}: {why}")

    def append_refused(self, directory: str, error: ApiError) -> None:
        self.logs.append_refused(directory, error)

    def rolled(self, directory: str) -> None:
        self.logs.rolled.add(directory)

    def cut(self, directory: str) -> None:
        self.logs.cut.add(directory)

    # -- ISRs and clients ----------------------------------------------------------------------------------------------

    def isr_asked(self, request: AlterPartitionRequest) -> None:
        if self._hosted is not None:
            self._claims.isr_asked(request, self._hosted.all())

    def isr_answered(self, request: AlterPartitionRequest, response: AlterPartitionResponse) -> None:
        if self._hosted is not None:
            self._claims.isr_answered(request, response)

    def handling(self, request: Request) -> None:
        if self._hosted is not None and self._node is not None:
            self._clients.readers.handling(self._node, request, self._hosted)
            self._clients.handling(self._machine, request, self._hosted)

    def handled(self, request: Request) -> None:
        self._clients.handled(self._machine)
