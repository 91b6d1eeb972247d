"""The quorum: its leader, its voters and its observers, and how far each is, as `penstock quorum describe` has it."""

from __future__ import annotations

from penstock.console.page import PageAsked
from penstock.lazy_dataclass import dataclass
from penstock.messages.quorum import QuorumInfo, QuorumReplicaInfo


@dataclass(frozen=True, slots=True)
class QuorumRow:
    """One voter or observer."""

    node_id: int
    kind: str
    log_end_offset: int
    lag: int | None
    last_fetch_ms_ago: int
    caught_up_ms_ago: int | None
    directory_id: str
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QuorumView:
    """The quorum of the metadata log."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    has_leader: bool
    is_dynamic: bool
    replicas: tuple[QuorumRow, ...]


async def show_quorum(asked: PageAsked) -> QuorumView:
    """Asks the quorum's leader, by way of a broker."""
    info = await asked.admin.describe_quorum()
    return QuorumView(
        leader_id=info.leader_id,
        leader_epoch=info.leader_epoch,
        high_watermark=info.high_watermark,
        has_leader=info.has_leader,
        is_dynamic=info.is_dynamic,
        replicas=(
            *(_row(info, "voter", one) for one in info.voters),
            *(_row(info, "observer", one) for one in info.observers),
        ),
    )


def _row(info: QuorumInfo, kind: str, one: QuorumReplicaInfo) -> QuorumRow:
    return QuorumRow(
        node_id=one.node_id,
        kind=kind,
        log_end_offset=one.log_end_offset,
        lag=info.lag_of(one),
        last_fetch_ms_ago=one.last_fetch_ms_ago,
        caught_up_ms_ago=one.last_caught_up_ms_ago or None,
        directory_id=one.directory_id,
        addresses=tuple(map(str, one.endpoints)),
    )
