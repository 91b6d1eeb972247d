"""Decides how the quorum of a controller begins that has no `controller.quorum.voters` (KIP-853).

`penstock node format` is told one of three things, as Kafka's `kafka-storage.sh format`:

    --standalone                  this node alone is the first voter
    --initial-controllers LIST    the voters of the list; ID@HOST:PORT:DIRECTORY_ID,… the same on each of them
    --join                        a quorum runs, or begins elsewhere: Kafka's --no-initial-controllers

A voter is a disk, known by the directory id of its metadata log dir. Format makes that id, or takes it from the list.
Pure: reads the configuration and the options. Not here: what is on the disks, and their formatting (format.py).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from broker.config.endpoint_texts import parse_voter_list, shown
from broker.config.node_config import NodeConfig
from broker.quorum.voter_memory import NEW_DISK
from metadata.listeners import CONTROLLER_LISTENER
from penstock.errors import ConfigError, MetaPropertiesError
from penstock.ids import is_id
from penstock.lazy_dataclass import dataclass
from penstock.types import Endpoint, ListenerEndpoint
from raft.voters import NO_VOTERS, VOTERS_MAX, Voter, VoterSet

STANDALONE, INITIAL_CONTROLLERS, JOIN = "--standalone", "--initial-controllers", "--join"
_FORM: Final = "must be ID@HOST:PORT:DIRECTORY_ID"


@dataclass(frozen=True, slots=True)
class QuorumOptions:
    """The options of one `penstock node format` for the quorum's beginning."""

    standalone: bool = False
    initial_controllers: str | None = None
    join: bool = False

    @property
    def given(self) -> tuple[str, ...]:
        """The options, as they are written."""
        options = {STANDALONE: self.standalone, INITIAL_CONTROLLERS: self.initial_controllers is not None}
        return tuple(name for name, is_given in {**options, JOIN: self.join}.items() if is_given)


NO_OPTIONS: Final = QuorumOptions()


@dataclass(frozen=True, slots=True)
class DynamicBeginning:
    """A controller's place in a dynamic quorum, as its metadata log dir is formatted."""

    directory_id: str
    voters: VoterSet
    """The first voters; none: the node joins."""


def beginning(config: NodeConfig, options: QuorumOptions, new_directory_id: str) -> DynamicBeginning | None:
    """The beginning of a controller whose metadata log dir is formatted now; None where the configuration names the
    voters, and on a broker. ConfigError for options that do not fit."""
    require_fitting(config, options)
    if not config.is_controller or config.controller_quorum_voters:
        return None
    if options.join:
        return DynamicBeginning(new_directory_id, NO_VOTERS)
    own = config.advertised_listeners[CONTROLLER_LISTENER]
    if options.standalone:
        return DynamicBeginning(new_directory_id, VoterSet((_voter(config.node_id, own, new_directory_id),)))
    if options.initial_controllers is not None:
        voters = parse_initial_controllers(options.initial_controllers)
        return DynamicBeginning(_own_directory_id(config.node_id, own, voters), voters)
    raise ConfigError(
        "this controller has no controller.quorum.voters, so `penstock node format` must know how its quorum begins:"
        f" {STANDALONE} (with this node as the only voter), {INITIAL_CONTROLLERS} LIST (with several), or {JOIN} (it"
        " runs already); give one of them"
    )


def require_fitting(config: NodeConfig, options: QuorumOptions) -> None:
    """ConfigError for options that exclude each other, or that a node of this configuration cannot have."""
    if not options.given:
        return
    first = options.given[0]
    if len(options.given) > 1:
        raise ConfigError(f"{' and '.join(options.given)} exclude each other; give one of them")
    if config.controller_quorum_voters and options.join and config.is_controller:
        raise ConfigError(
            f"{JOIN}: is for a quorum whose metadata log names the voters: give controller.quorum.bootstrap.servers in"
            " the place of controller.quorum.voters. If `penstock quorum describe` says that the voters are static, a"
            " voter that has lost its disk is formatted with --rejoin"
        )
    if config.controller_quorum_voters:
        raise ConfigError(
            f"{first}: controller.quorum.voters names the voters already; leave {first} out, or give"
            " controller.quorum.bootstrap.servers in the place of controller.quorum.voters"
        )
    if not config.is_controller and first != JOIN:
        raise ConfigError(f"{first}: is for controllers, and this node is a broker, which never votes; leave it out")


def require_no_second_beginning(config: NodeConfig, options: QuorumOptions) -> None:
    """MetaPropertiesError where a known controller has lost its metadata log dir and would begin another quorum."""
    if options.standalone or options.initial_controllers is not None:
        raise MetaPropertiesError(
            f"{config.metadata_log_dir} held the metadata log of node {config.node_id} and is empty now, and"
            f" {options.given[0]} would begin another quorum; restore it, or, where other voters are a majority,"
            f" {NEW_DISK}"
        )


def parse_initial_controllers(text: str) -> VoterSet:
    """The voters of a list; ConfigError."""
    parts = [item.strip().rpartition(":")[::2] for item in text.split(",")]
    for voter, directory_id in parts:
        if "@" not in voter or not is_id(directory_id):
            raise ConfigError(
                f"{INITIAL_CONTROLLERS} {shown(f'{voter}:{directory_id}')}: {_FORM}, with a directory id as"
                " `penstock node random-uuid` makes one"
            )
    if len(parts) > VOTERS_MAX:
        raise ConfigError(f"{INITIAL_CONTROLLERS}: {len(parts)} voters are given; at most {VOTERS_MAX} are possible")
    directory_ids = [directory_id for _, directory_id in parts]
    at = parse_voter_list(tuple(voter for voter, _ in parts), INITIAL_CONTROLLERS)
    for what, count in (Counter(directory_ids) + Counter(map(str, at.values()))).items():
        if count > 1:
            raise ConfigError(f"{INITIAL_CONTROLLERS}: {what} is given twice; give each voter its own")
    for endpoint in at.values():
        if endpoint.is_every_address:
            raise ConfigError(f"{INITIAL_CONTROLLERS}: nobody can connect to {endpoint}; name the host")
    found = [_voter(node_id, to, one) for (node_id, to), one in zip(at.items(), directory_ids, strict=True)]
    return VoterSet(tuple(sorted(found, key=lambda voter: voter.voter_id)))


def _voter(node_id: int, endpoint: Endpoint, directory_id: str) -> Voter:
    return Voter(node_id, directory_id, (ListenerEndpoint(CONTROLLER_LISTENER, endpoint),))


def _own_directory_id(node_id: int, own: Endpoint, voters: VoterSet) -> str:
    """The directory id that the list has for this node; ConfigError if the list has another address, or none."""
    voter = voters.find(node_id)
    if voter is None or voter.directory_id is None:
        raise ConfigError(
            f"{INITIAL_CONTROLLERS}: node {node_id} is not among {list(voters.ids)}; add"
            f" {node_id}@{own}:DIRECTORY_ID on every controller, or format this one with {JOIN}"
        )
    listed = voter.endpoint(CONTROLLER_LISTENER)
    if listed != own:
        raise ConfigError(
            f"{INITIAL_CONTROLLERS}: node {node_id} is at {listed} in the list, but its CONTROLLER listener is"
            f" {own} for the others; correct the list on every controller, or advertised.listeners here"
        )
    return voter.directory_id
