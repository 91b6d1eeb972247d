"""The options of `node format` for the beginning of a quorum whose voters change: what fits a node, and bad lists."""

from __future__ import annotations

import pytest

from broker.config.config import parse_config
from broker.config.node_config import NodeConfig
from broker.node.commands.initial_controllers import (
    NO_OPTIONS,
    QuorumOptions,
    beginning,
    parse_initial_controllers,
    require_no_second_beginning,
)
from penstock.errors import ConfigError, MetaPropertiesError
from penstock.ids import system_ids
from penstock.types import Endpoint, ListenerEndpoint
from raft.voters import NO_VOTERS, Voter, VoterSet

ONE, TWO, NEW = "one-one-one-one-one-oA", "two_two_two_two_two_tw", "new-new-new-new-new-nQ"
STANDALONE, JOINS = QuorumOptions(standalone=True), QuorumOptions(join=True)
LIST = f"1@10.0.0.1:9193:{ONE},2@[fd00::2]:9193:{TWO}"


def voter(node_id: int, host: str, directory_id: str) -> Voter:
    return Voter(node_id, directory_id, (ListenerEndpoint("CONTROLLER", Endpoint(host, 9193)),))


VOTERS = VoterSet((voter(1, "10.0.0.1", ONE), voter(2, "fd00::2", TWO)))


def node(roles: str = "controller", listener: str = "10.0.0.1:9193", **more: str) -> NodeConfig:
    listeners = [f"CONTROLLER://{listener}"] if "controller" in roles else []
    listeners += ["BROKER://h:1", "INTERNAL://h:2"] if "broker" in roles else []
    quorum = {"controller.quorum.bootstrap.servers": "10.0.0.1:9193,10.0.0.2:9193"}
    changed = {name.replace("_", "."): value for name, value in more.items()}
    own = {"node.id": 1, "process.roles": roles, "listeners": listeners, "log.dirs": "/nowhere"}
    return parse_config({**own, **quorum, **changed})


def refusal(config: NodeConfig, options: QuorumOptions) -> str:
    with pytest.raises(ConfigError) as caught:
        beginning(config, options, NEW)
    return str(caught.value)


def test_a_standalone_controller_is_the_only_voter_by_the_id_of_its_new_disk() -> None:
    found = beginning(node(), STANDALONE, NEW)
    assert found is not None and found.directory_id == NEW
    assert found.voters == VoterSet((voter(1, "10.0.0.1", NEW),))


def test_the_address_of_a_voter_is_the_one_that_others_reach() -> None:
    config = node(listener="0.0.0.0:9193", advertised_listeners="CONTROLLER://far.example:9193")
    found = beginning(config, STANDALONE, NEW)
    assert found is not None and found.voters == VoterSet((voter(1, "far.example", NEW),))


def test_an_initial_controller_has_the_directory_id_of_the_list() -> None:
    found = beginning(node(), QuorumOptions(initial_controllers=LIST), NEW)
    assert found is not None and found.directory_id == ONE and found.voters == VOTERS


def test_the_order_of_the_list_and_blanks_in_it_mean_nothing() -> None:
    assert parse_initial_controllers(", ".join(reversed(LIST.split(",")))) == VOTERS


def test_a_controller_that_joins_knows_no_voter() -> None:
    found = beginning(node(), JOINS, NEW)
    assert found is not None and (found.directory_id, found.voters) == (NEW, NO_VOTERS)


def test_a_broker_and_a_static_voter_have_no_beginning() -> None:
    assert beginning(node("broker"), NO_OPTIONS, NEW) is None
    assert beginning(node("broker"), JOINS, NEW) is None, "Kafka's pages format new brokers and controllers alike"
    assert beginning(node(controller_quorum_voters="1@10.0.0.1:9193"), NO_OPTIONS, NEW) is None


def test_a_controller_without_voters_is_asked_how_its_quorum_begins() -> None:
    said = refusal(node(), NO_OPTIONS)
    assert "no controller.quorum.voters" in said and "--standalone" in said and "--join" in said
    assert "--initial-controllers LIST" in said and said.endswith("give one of them")


def test_who_joins_with_configured_voters_is_not_told_to_leave_the_option_out() -> None:
    """Formatted without it, an empty disk would count as a new voter of the old list, and vote at once."""
    said = refusal(node(controller_quorum_voters="1@10.0.0.1:9193"), JOINS)
    assert "bootstrap.servers in the place of controller.quorum.voters" in said and "--rejoin" in said
    assert "leave" not in said


@pytest.mark.parametrize(
    ("options", "roles"),
    [
        (STANDALONE, "controller"),
        (STANDALONE, "broker"),
        (JOINS, "broker"),
        (QuorumOptions(initial_controllers=LIST), "controller"),
        (QuorumOptions(initial_controllers=LIST), "broker"),
    ],
)
def test_no_option_goes_with_configured_voters(options: QuorumOptions, roles: str) -> None:
    config = node(roles, controller_quorum_voters=f"{1 if roles == 'controller' else 2}@10.0.0.1:9193")
    said = refusal(config, options)
    assert said.startswith(f"{options.given[0]}: controller.quorum.voters names the voters already; leave")


@pytest.mark.parametrize("options", [STANDALONE, QuorumOptions(initial_controllers=LIST)])
def test_a_broker_begins_no_quorum(options: QuorumOptions) -> None:
    assert "is for controllers, and this node is a broker" in refusal(node("broker"), options)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (QuorumOptions(True, LIST), "--standalone and --initial-controllers"),
        (QuorumOptions(True, None, True), "--standalone and --join"),
        (QuorumOptions(False, "", True), "--initial-controllers and --join"),
    ],
)
def test_the_options_exclude_each_other(options: QuorumOptions, named: str) -> None:
    assert refusal(node(), options) == f"{named} exclude each other; give one of them"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must be ID@HOST:PORT:DIRECTORY_ID"),
        ("1@10.0.0.1:9193", "as `penstock node random-uuid` makes one"),
        (f"10.0.0.1:9193:{ONE}", "must be ID@HOST:PORT:DIRECTORY_ID"),
        (f"{LIST},", "must be ID@HOST:PORT:DIRECTORY_ID"),
        (f"1@10.0.0.1:9193:{ONE[:-1]}", "must be ID@HOST:PORT:DIRECTORY_ID"),
        (f"1@10.0.0.1:9193:{ONE}A", "must be ID@HOST:PORT:DIRECTORY_ID"),
        (f"1@10.0.0.1:9193:{ONE[:-1]}B", "must be ID@HOST:PORT:DIRECTORY_ID"),
        (f"1@10.0.0.1:9193:-{ONE[1:]}", "must be ID@HOST:PORT:DIRECTORY_ID"),
        (f"1@10.0.0.1:9193:{'A' * 21}Q", "must be ID@HOST:PORT:DIRECTORY_ID"),
        ("1@10.0.0.1:9193:6f1c3f04-8d0d-4f4a-9d0e-2f6c1b7a9e55", "must be ID@HOST:PORT:DIRECTORY_ID"),
        (f"x@10.0.0.1:9193:{ONE}", "must be id@host:port"),
        (f"1@10.0.0.1:99999:{ONE}", "port 99999 is out of range"),
        (f"1@a..b:9193:{ONE}", '"a..b" is neither the name of a host nor an address'),
        (f"1@0.0.0.0:9193:{ONE}", "nobody can connect to 0.0.0.0:9193; name the host"),
        (f"1@10.0.0.1:9193:{ONE},1@10.0.0.2:9193:{TWO}", "node id 1 is given twice"),
        (f"1@10.0.0.1:9193:{ONE},2@10.0.0.1:9193:{TWO}", "10.0.0.1:9193 is given twice; give each voter its own"),
        (f"1@10.0.0.1:9193:{ONE},2@10.0.0.2:9193:{ONE}", f"{ONE} is given twice; give each voter its own"),
        (f"2@10.0.0.1:9193:{ONE}", "node 1 is not among [2]; add 1@10.0.0.1:9193:DIRECTORY_ID on every controller"),
        (f"1@10.0.0.7:9193:{ONE}", "at 10.0.0.7:9193 in the list, but its CONTROLLER listener is 10.0.0.1:9193"),
    ],
)
def test_a_bad_list_is_refused_with_the_remedy(text: str, says: str) -> None:
    said = refusal(node(), QuorumOptions(initial_controllers=text))
    assert said.startswith("--initial-controllers") and says in said


def test_a_list_has_at_most_as_many_voters_as_a_quorum() -> None:
    ids = system_ids()
    several = ",".join(f"{number}@10.0.0.{number}:9193:{ids.new_id()}" for number in range(1, 11))
    assert "10 voters are given; at most 9 are possible" in refusal(node(), QuorumOptions(initial_controllers=several))


def test_every_made_id_is_one_that_a_list_takes() -> None:
    ids = system_ids()
    for _ in range(200):
        assert len(parse_initial_controllers(f"1@h:1:{ids.new_id()}")) == 1


def test_a_node_that_lost_its_metadata_log_dir_begins_no_second_quorum() -> None:
    require_no_second_beginning(node(), JOINS)
    for options in (STANDALONE, QuorumOptions(initial_controllers=LIST)):
        with pytest.raises(MetaPropertiesError, match=r"would begin another quorum; restore it, or.* with --join"):
            require_no_second_beginning(node(), options)
